package wire

// HTTP from the executor's network.
const (
	MethodHTTPRequest = "http/request"

	NoteHTTPBodyDelta = "http/request/bodyDelta" // notification to the client
)

// HTTPRequestParams is a request that the executor makes.
type HTTPRequestParams struct {
	Method         string         `json:"method"`
	URL            string         `json:"url"`
	Headers        []HTTPHeader   `json:"headers" wire:"default"`
	BodyBase64     *Base64        `json:"bodyBase64"`
	TimeoutMs      *uint64        `json:"timeoutMs"`
	RedirectPolicy RedirectPolicy `json:"redirectPolicy,omitempty" wire:"default"` // absent: RedirectFollow
	RequestID      string         `json:"requestId"`
	StreamResponse bool           `json:"streamResponse" wire:"default"`
}

// HTTPHeader is one header line of a request. If ValueEnvVar is set, the value of that variable
// of the executor's environment is appended to Value.
type HTTPHeader struct {
	Name        string  `json:"name"`
	Value       string  `json:"value"`
	ValueEnvVar *string `json:"valueEnvVar"`
}

// RedirectPolicy says whether redirects are followed.
type RedirectPolicy string

// The values of RedirectPolicy.
const (
	RedirectFollow RedirectPolicy = "follow"
	RedirectStop   RedirectPolicy = "stop"
)

func (RedirectPolicy) variants() []string { return []string{"follow", "stop"} }

// HTTPResponse answers http/request.
type HTTPResponse struct {
	Status     int                  `json:"status"`
	Headers    []HTTPResponseHeader `json:"headers"`
	BodyBase64 Base64               `json:"bodyBase64"` // empty if the body is streamed
}

// HTTPResponseHeader is one header line of a response.
type HTTPResponseHeader struct {
	Name  string `json:"name"` // lower case
	Value string `json:"value"`
}

// HTTPBodyDelta is the notification http/request/bodyDelta.
type HTTPBodyDelta struct {
	RequestID   string  `json:"requestId"`
	Seq         uint64  `json:"seq"`
	DeltaBase64 Base64  `json:"deltaBase64"`
	Done        bool    `json:"done"`
	Error       *string `json:"error"`
}
