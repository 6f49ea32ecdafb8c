package hub

import (
	"slices"
	"strings"
	"testing"
)

// boundary is all that each role may do. A change here is a change of what a hostile host, gateway or operator can do: see the
// comments of fleet.HostPermissions before.
var boundary = map[Role]string{
	RoleHost: `
		publish tether.beat.alpha
		publish tether.gateway.*.alive
		publish tether.host.alpha.*.down.*.*
		publish tether.lease.alpha
		subscribe tether.host.alpha.>
	`,
	RoleGateway: `
		publish $JS.API.DIRECT.GET.KV_tether-drains
		publish $JS.API.DIRECT.GET.KV_tether-drains.$KV.tether-drains.*
		publish $JS.API.DIRECT.GET.KV_tether-hosts
		publish $JS.API.DIRECT.GET.KV_tether-hosts.$KV.tether-hosts.*
		publish $JS.API.DIRECT.GET.KV_tether-sessions
		publish $JS.API.DIRECT.GET.KV_tether-sessions.$KV.tether-sessions.*
		publish $JS.API.INFO
		publish $JS.API.STREAM.CREATE.KV_tether-drains
		publish $JS.API.STREAM.CREATE.KV_tether-hosts
		publish $JS.API.STREAM.CREATE.KV_tether-sessions
		publish $JS.API.STREAM.INFO.KV_tether-drains
		publish $JS.API.STREAM.INFO.KV_tether-hosts
		publish $JS.API.STREAM.INFO.KV_tether-sessions
		publish $JS.API.STREAM.MSG.GET.KV_tether-drains
		publish $JS.API.STREAM.MSG.GET.KV_tether-hosts
		publish $JS.API.STREAM.MSG.GET.KV_tether-sessions
		publish $KV.tether-hosts.*
		publish $KV.tether-sessions.*
		publish tether.host.*.*.up.*.*
		publish tether.host.*.inbox.>
		subscribe $KV.tether-drains.*
		subscribe tether.beat.*
		subscribe tether.gateway.*.alive
		subscribe tether.host.*.*.down.*.*
		subscribe tether.inbox.>
		subscribe tether.lease.*
	`,
	RoleOperator: `
		publish $JS.API.DIRECT.GET.KV_tether-drains
		publish $JS.API.DIRECT.GET.KV_tether-drains.$KV.tether-drains.*
		publish $JS.API.DIRECT.GET.KV_tether-hosts
		publish $JS.API.DIRECT.GET.KV_tether-hosts.$KV.tether-hosts.*
		publish $JS.API.INFO
		publish $JS.API.STREAM.INFO.KV_tether-drains
		publish $JS.API.STREAM.INFO.KV_tether-hosts
		publish $JS.API.STREAM.MSG.GET.KV_tether-drains
		publish $JS.API.STREAM.MSG.GET.KV_tether-hosts
		publish $KV.tether-drains.*
		subscribe $KV.tether-drains.*
		subscribe tether.beat.*
		subscribe tether.inbox.>
	`,
}

// The permissions are exactly these.
func TestBoundary(t *testing.T) {
	t.Parallel()
	for _, role := range roles {
		p := role.permissions(role.name())
		var got []string
		for _, subject := range p.Publish {
			got = append(got, "publish "+subject)
		}
		for _, subject := range p.Subscribe {
			got = append(got, "subscribe "+subject)
		}
		slices.Sort(got)
		want := strings.FieldsFunc(boundary[role], func(r rune) bool { return r == '\n' })
		for i := range want {
			want[i] = strings.TrimSpace(want[i])
		}
		want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v may now:\n\t%s", role, strings.Join(got, "\n\t"))
		}
	}
}
