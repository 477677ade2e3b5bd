package hustings

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"hustings.io/go/internal/core"
)

// GateOptions are the settings of a [Gate].
type GateOptions struct {
	// Deadline is how long a write may take, from its admission to the head of its answer. Default: 5 s, or less if the
	// durations of the elector allow less.
	Deadline time.Duration
	// Park is how many writes may wait until this process leads, instead of failing. They are sent in no particular order.
	// A parked write is based on what its caller read before the promotion, so it should be conditional on the
	// resourceVersion. Default: none.
	Park int
	// ParkFor is how long each of them may wait. Default: 30 s.
	ParkFor time.Duration
	// Allow lets further requests pass, by their method and their path, whether or not this process leads: see
	// [AllowEvents].
	Allow func(method, path string) bool
}

// A Gate passes the writes of a program only while this process leads. Reads, dry runs, and reviews of access and of
// tokens always pass. Requests that take effect outside the API server (exec, attach, portforward, proxy, and every
// upgrade) count as writes, whatever their method.
//
//   - The gate sends a write only if it can end before the validity of its term does, and ends one that takes longer.
//   - A write belongs to the term in which it began. If the term is lost, the gate ends the write at once.
//   - The elector gives a term up only after the writes under way have ended, and the gate then admits no further one.
//
// To end a write, the gate closes its connection. The server may execute the write anyway. A write without a body, such as an
// exec, may even be sent after its term, if this process was suspended between the admission and the sending; the gate
// checks again while it sends a body. Where that must not happen, fence your writes by [Term.Token].
type Gate struct {
	elector    *Elector
	options    GateOptions
	room       chan struct{}
	classifier *classifier
	// prefix is the path of the server's address, which each request has.
	prefix string
	within *Term
}

// A GateError is why the gate did not send a write, or ended it. Errors of client-go wrap it: use [IsNotLeading] or
// [errors.As].
type GateError struct {
	// Lease is namespace/name of the Lease.
	Lease string
	// OutcomeUnknown means that the server may have executed the write, or still may: read before you write again.
	OutcomeUnknown bool
	why            string
}

// Error says whether the write was sent.
func (e *GateError) Error() string {
	if e.OutcomeUnknown {
		return fmt.Sprintf("%s Lease %s: the outcome of the write is unknown; read before you write again", e.why, e.Lease)
	}
	return fmt.Sprintf("%s Lease %s: the write was not sent; retry from a fresh read once this process leads", e.why, e.Lease)
}

// IsNotLeading returns whether an error means that a gate did not send a write, because this process does not lead.
func IsNotLeading(err error) bool {
	gate, ok := errors.AsType[*GateError](err)
	return ok && !gate.OutcomeUnknown
}

// eventsPath matches the events of a namespace, or one of them.
var eventsPath = regexp.MustCompile(`^/(api|apis/events\.k8s\.io)/v1(/namespaces/[^/]+)?/events(/[^/]+)?$`)

// AllowEvents is a [GateOptions.Allow] that lets every replica publish events.
func AllowEvents(method, path string) bool {
	return method != http.MethodDelete && eventsPath.MatchString(path)
}

// Gate returns a gate for the writes of this process.
func (e *Elector) Gate(options GateOptions) (*Gate, error) {
	options.Deadline = cmp.Or(options.Deadline, min(5*time.Second, e.longest))
	options.ParkFor = cmp.Or(options.ParkFor, 30*time.Second)
	if options.Deadline < 0 || options.Deadline > e.longest {
		return nil, fmt.Errorf("cannot gate writes under Lease %s: the write deadline of %s must be above 0 and at most %s, "+
			"by the renew deadline, the retry period and the stop grace", e.name, options.Deadline, e.longest)
	}
	if options.Park < 0 || options.ParkFor < 0 {
		return nil, fmt.Errorf("cannot gate writes under Lease %s: Park and ParkFor must not be negative", e.name)
	}
	server, err := url.Parse(e.connections.server)
	if err != nil {
		return nil, err
	}
	classifier, err := theClassifier()
	if err != nil {
		return nil, err
	}
	return &Gate{
		elector:    e,
		options:    options,
		room:       make(chan struct{}, options.Park),
		classifier: classifier,
		prefix:     server.EscapedPath(),
	}, nil
}

// Within returns a gate that passes writes in this term only, so that none is sent in a later term of this process.
func (g *Gate) Within(term *Term) *Gate {
	other := *g
	other.within = term
	return &other
}

// IsOpen returns whether this process leads for longer than a write may take. It costs one atomic load and one reading of
// the clock. While the elector gives the term up, the gate rejects writes even if this is true.
func (g *Gate) IsOpen() bool {
	_, ok := g.until()
	return ok && (g.within == nil || !g.within.isOver())
}

// Wrap puts a transport behind the gate. It is made for [k8s.io/client-go/rest.Config.Wrap]. Never use it for the
// configuration of the elector, which could then not write the Lease.
func (g *Gate) Wrap(transport http.RoundTripper) http.RoundTripper {
	return gatedTransport{g, transport}
}

type gatedTransport struct {
	gate      *Gate
	transport http.RoundTripper
}

// WrappedRoundTripper returns the transport behind the gate.
func (t gatedTransport) WrappedRoundTripper() http.RoundTripper { return t.transport }

func (t gatedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	g := t.gate
	if g.passes(request) {
		return t.transport.RoundTrip(request)
	}
	write, err := g.admit(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	defer write.end()
	ctx, cancel := context.WithCancelCause(request.Context())
	waiting, stopWaiting := context.WithCancelCause(write.term.over)
	defer stopWaiting(errAnswered)
	go func() {
		if cause := write.wait(waiting); cause != nil {
			cancel(cause)
		}
	}()
	response, err := t.transport.RoundTrip(write.bound(request.WithContext(ctx)))
	if err != nil {
		if cause, ok := errors.AsType[*GateError](context.Cause(ctx)); ok {
			err = cause
		}
		cancel(err)
		return nil, err
	}
	// client-go would repeat the write by itself, perhaps in another term.
	response.Header.Del("Retry-After")
	// The answer may be read after the write has ended.
	body := closer{response.Body, func() { cancel(nil) }}
	response.Body = body
	if upgraded, ok := body.ReadCloser.(io.ReadWriteCloser); ok {
		response.Body = writableCloser{body, upgraded}
	}
	return response, nil
}

// passes returns whether a request passes without leadership.
func (g *Gate) passes(request *http.Request) bool {
	target := strings.TrimPrefix(request.URL.RequestURI(), g.prefix)
	path, _, _ := strings.Cut(target, "?")
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		// The query does not matter here. The core knows no target above 64 KiB, which a selector may exceed.
		target = path
	}
	switch g.classifier.classify(request, target) {
	case core.Reads, core.ChangesNothing:
		return true
	}
	return g.options.Allow != nil && g.options.Allow(request.Method, path)
}

// errAnswered ends the wait for the end of a write.
var errAnswered = errors.New("answered")

// A gatedWrite is a write that may be under way. The elector does not give the Lease up before it has ended.
type gatedWrite struct {
	gate  *Gate
	term  *Term
	until int64
}

func (w *gatedWrite) end() { w.term.writes.end() }

// wait waits until the write must end, and returns why; nil if it was answered before.
func (w *gatedWrite) wait(ctx context.Context) error {
	if w.gate.elector.clock.sleepUntil(ctx, w.until) {
		return w.gate.ended("the write exceeded its deadline under")
	}
	if context.Cause(ctx) == errAnswered {
		return nil
	}
	return w.gate.ended("the term was lost during a write under")
}

// bound returns a request whose body cannot be sent after the write must have ended. A timer may be late: this process
// may be frozen between the admission and the sending.
func (w *gatedWrite) bound(request *http.Request) *http.Request {
	if request.Body == nil || request.Body == http.NoBody {
		return request
	}
	bound := func(body io.ReadCloser) io.ReadCloser { return &boundBody{body, w} }
	request.Body = bound(request.Body)
	if again := request.GetBody; again != nil {
		request.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return bound(body), nil
		}
	}
	return request
}

type boundBody struct {
	io.ReadCloser
	write *gatedWrite
}

func (b *boundBody) Read(into []byte) (int, error) {
	if b.write.term.isOver() || b.write.gate.elector.clock.moment() >= b.write.until {
		return 0, b.write.gate.ended("the write exceeded its deadline under")
	}
	return b.ReadCloser.Read(into)
}

// closer is a body that calls then when it is closed.
type closer struct {
	io.ReadCloser
	then func()
}

func (c closer) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

// writableCloser is the connection of an upgrade.
type writableCloser struct {
	closer
	io.Writer
}

// CloseWrite is what the connection of an upgrade has in net/http.
func (c writableCloser) CloseWrite() error {
	if half, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// until returns when a write that begins now must have ended. It is false if that is not before the end of the validity.
func (g *Gate) until() (int64, bool) {
	// Load before the clock is read, as in [Elector.Remaining].
	validUntil := g.elector.validUntil.Load()
	until := g.elector.clock.moment() + g.options.Deadline.Microseconds()
	return until, until < validUntil
}

// begin begins a write, or returns nil.
func (g *Gate) begin() *gatedWrite {
	until, ok := g.until()
	if !ok {
		return nil
	}
	term := g.within
	if term == nil {
		view, _ := g.elector.current()
		term = view.term
	}
	if term == nil || !term.writes.begin() {
		return nil
	}
	// The validity may already belong to a later term. The end of this term was published before that.
	if term.isOver() {
		term.writes.end()
		return nil
	}
	return &gatedWrite{g, term, until}
}

// admit waits until a write may begin, if writes may wait.
func (g *Gate) admit(ctx context.Context) (*gatedWrite, error) {
	if write := g.begin(); write != nil {
		return write, nil
	}
	if g.options.Park == 0 {
		return nil, g.rejected("not the leader of")
	}
	select {
	case g.room <- struct{}{}:
		defer func() { <-g.room }()
	default:
		return nil, g.rejected(fmt.Sprintf("%d writes are waiting already for", g.options.Park))
	}
	timeout := time.NewTimer(g.options.ParkFor)
	defer timeout.Stop()
	for {
		view, changed := g.elector.current()
		if write := g.begin(); write != nil {
			return write, nil
		}
		if view.err != nil || g.within != nil && g.within.isOver() {
			return nil, g.rejected("not the leader of")
		}
		select {
		case <-changed:
		case <-timeout.C:
			return nil, g.rejected(fmt.Sprintf("after %s still not the leader of", g.options.ParkFor))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (g *Gate) rejected(why string) error { return &GateError{Lease: g.elector.name, why: why} }

func (g *Gate) ended(why string) error {
	return &GateError{Lease: g.elector.name, OutcomeUnknown: true, why: why}
}

// A classifier asks the core what requests do. It has an instance of its own.
type classifier struct {
	mutex    sync.Mutex
	instance *core.Instance
}

// theClassifier returns the classifier of all gates of this process.
var theClassifier = sync.OnceValues(func() (*classifier, error) {
	instance, err := newInstance()
	return &classifier{instance: instance}, err
})

// classify returns what a request does. A request that cannot be classified counts as a write.
func (c *classifier) classify(request *http.Request, target string) core.Class {
	var body []byte
	unreadable := false
	if request.Method == http.MethodDelete && request.Body != nil && request.Body != http.NoBody {
		body, unreadable = deleteOptions(request)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	class, err := c.instance.Gate(request.Method, target, body, request.Header.Get("Upgrade") != "", unreadable)
	if err != nil {
		return core.Write
	}
	return class
}

// deleteOptions returns the body of a DELETE without consuming it, or true if that is not possible.
func deleteOptions(request *http.Request) (body []byte, unreadable bool) {
	if request.GetBody == nil || request.ContentLength < 0 || request.ContentLength > longestAnswer {
		return nil, true
	}
	copied, err := request.GetBody()
	if err != nil {
		return nil, true
	}
	defer copied.Close()
	var read bytes.Buffer
	if _, err := read.ReadFrom(copied); err != nil {
		return nil, true
	}
	return read.Bytes(), false
}
