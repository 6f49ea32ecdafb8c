package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tetherexec/tether/internal/fleet"
)

// ErrConflict means that an entry has changed since it was read.
var ErrConflict = errors.New("another gateway has changed the entry")

// Unavailable means that the directory does not answer, or that it does not have the answer yet. Another attempt may succeed.
type Unavailable struct{ Reason string }

func (e *Unavailable) Error() string { return e.Reason }

// requestTime limits one request to the directory.
const requestTime = 5 * time.Second

// pageSize is how many entries are read at a time.
const pageSize = 256

// A bucket is one of the buckets of the directory.
type bucket struct {
	name    string
	mayMake bool // gateways may, operators may not
	bus     *nats.Conn
	js      jetstream.JetStream
}

// An entry is the value of a key.
type entry struct {
	key   string
	value []byte // nil: the key was deleted, or never existed
	rev   uint64 // 0: it never existed, or is forgotten
}

func newBucket(bus *nats.Conn, name string, mayMake bool) (*bucket, error) {
	js, err := jetstream.New(bus)
	return &bucket{name: name, mayMake: mayMake, bus: bus, js: js}, err
}

// replicas are the numbers of copies that are tried: three in a cluster, else one.
var replicas = []int{3, 1}

// make makes the stream of the bucket if there is none. The hub limits the size of all buckets together (hub.Config.StoreLimit); a limit of
// its own would reserve that much for each.
func (b *bucket) make(ctx context.Context) (err error) {
	if !b.mayMake {
		return errors.New("no gateway has been connected to the hub yet")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	for _, n := range replicas {
		_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: fleet.Stream(b.name), Subjects: []string{fleet.KeySubject(b.name, ">")}, Description: "tether: directory of the fleet",
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: n,
			AllowRollup: true, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true,
		})
		if api, ok := errors.AsType[*jetstream.APIError](err); !ok || api.ErrorCode != codeNoCluster {
			break
		}
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // with other settings: the user has chosen them
		err = nil
	}
	return err
}

// Codes of errors of JetStream.
const (
	codeNoCluster     = 10074 // several copies need a cluster
	codeNoMessage     = 10037
	codeWrongLast     = 10071 // the revision is not the last one
	codeWrongLastSame = 10164 // the same, with a text that does not tell the last one
)

// get returns the value of a key. Unless leader is set, any copy of the bucket may answer, and it may be a little old.
func (b *bucket) get(ctx context.Context, key string, leader bool) (e entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err = b.retry(ctx, func() error {
		if leader {
			e, err = b.getLast(ctx, key)
			return err
		}
		m, err := b.bus.RequestWithContext(ctx, fleet.GetSubject(b.name, key), nil)
		if err == nil {
			e, err = decode(m, key)
		}
		return err
	})
	return e, err
}

// retry does something, once more if the stream had to be made, and says what its error means.
func (b *bucket) retry(ctx context.Context, do func() error) error {
	err := do()
	api, refused := errors.AsType[*jetstream.APIError](err)
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || refused && api.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		if err = b.make(ctx); err == nil {
			err = do()
		}
	}
	if err == nil || errors.Is(err, ErrConflict) {
		return err
	}
	return &Unavailable{"the directory of the fleet does not answer: " + err.Error()}
}

// decode decodes the answer to a request for a key.
func decode(m *nats.Msg, key string) (e entry, err error) {
	e.key = key
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return e, nil
	default:
		return e, fmt.Errorf("%s %s", status, m.Header.Get("Description"))
	}
	if e.rev, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
		return e, errors.New("an entry has no number")
	}
	if !isDeleted(m.Header) {
		e.value = m.Data
	}
	return e, nil
}

// deletion marks an entry as deleted.
const deletion = "KV-Operation"

func isDeleted(h nats.Header) bool { return h.Get(deletion) != "" || h.Get("Nats-Marker-Reason") != "" }

// getLast asks the leader of the bucket.
func (b *bucket) getLast(ctx context.Context, key string) (e entry, err error) {
	e.key = key
	request, err := json.Marshal(map[string]string{"last_by_subj": fleet.KeySubject(b.name, key)})
	if err != nil {
		return e, err
	}
	m, err := b.bus.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+fleet.Stream(b.name), request)
	if err != nil {
		return e, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return e, err
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == codeNoMessage:
		return e, nil
	case answer.Error != nil:
		return e, answer.Error
	case answer.Message == nil:
		return e, errors.New("an answer has no entry")
	}
	e.rev = answer.Message.Sequence
	header := nats.Header{}
	if len(answer.Message.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return e, err
		}
	}
	if !isDeleted(header) {
		e.value = answer.Message.Data
	}
	return e, nil
}

// put writes a value if rev is the revision of the key, and returns the new one. A nil value deletes the key. The entry ends after ttl;
// 0: never.
func (b *bucket) put(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (newRev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	m := &nats.Msg{Subject: fleet.KeySubject(b.name, key), Data: value, Header: nats.Header{}}
	if value == nil {
		m.Header.Set(deletion, "DEL")
	}
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(rev)}
	if ttl > 0 {
		options = append(options, jetstream.WithMsgTTL(max(ttl, time.Second)))
	}
	err = b.retry(ctx, func() error {
		ack, err := b.js.PublishMsg(ctx, m, options...)
		if api, ok := errors.AsType[*jetstream.APIError](err); ok && (api.ErrorCode == codeWrongLast || api.ErrorCode == codeWrongLastSame) {
			return ErrConflict
		}
		if err == nil {
			newRev = ack.Sequence
		}
		return err
	})
	return newRev, err
}

// each calls f with each entry of the bucket. The entries may be a little old.
func (b *bucket) each(ctx context.Context, f func(entry)) error {
	for next := uint64(1); next > 0; {
		err := b.retry(ctx, func() (err error) {
			next, err = b.page(ctx, next, f)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// page reads some entries, and returns the number at which the next ones begin; 0: there are none.
func (b *bucket) page(ctx context.Context, from uint64, f func(entry)) (next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	next = from
	answers := b.bus.NewInbox()
	sub, err := b.bus.SubscribeSync(answers)
	if err != nil {
		return from, err
	}
	defer sub.Unsubscribe()
	request, err := json.Marshal(map[string]any{"seq": from, "batch": pageSize, "next_by_subj": fleet.KeySubject(b.name, ">")})
	if err != nil {
		return from, err
	}
	if err := b.bus.PublishRequest("$JS.API.DIRECT.GET."+fleet.Stream(b.name), answers, request); err != nil {
		return from, err
	}
	prefix := fleet.KeySubject(b.name, "")
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return from, err
		}
		switch m.Header.Get("Status") {
		case "404":
			return 0, nil
		case "503":
			return from, nats.ErrNoResponders
		case "204": // the end of the page
			if m.Header.Get("Nats-Num-Pending") == "0" {
				return 0, nil
			}
			return next, nil
		}
		e, err := decode(m, strings.TrimPrefix(m.Header.Get("Nats-Subject"), prefix))
		if err != nil {
			return from, err
		}
		next = e.rev + 1
		if e.value != nil {
			f(e)
		}
	}
}
