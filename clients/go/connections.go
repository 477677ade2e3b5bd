package hustings

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"hustings.io/go/internal/core"
)

const (
	// userAgent follows the program's own in the log of the server.
	userAgent = "hustings-go/0.1.0"
	// connectTimeout is how long connecting may take. A request also has its own deadline.
	connectTimeout = 5 * time.Second
	// longestAnswer is the longest answer, or line of a stream, in bytes. The API server stores no object of this size.
	longestAnswer = 16 << 20
)

// connections sends the requests of one elector.
//
// After a failover of the load balancer, each request on an existing connection gets no answer, while new connections
// work at once. Each stale connection of a pool would cost a request timeout, and a few of them a healthy holder its
// term. So the pool is replaced as soon as one of its requests goes without an answer. A stream may be silent although
// its connection works. It is ended if it has been silent since before the sending of such a request, and a new
// connection has answered since.
//
// There is one HTTP/1.1 connection for each request under way, since one stuck HTTP/2 connection would carry all.
type connections struct {
	// server is the address of the server, without a slash at its end.
	server string
	clock  clock
	build  func() (*pool, error)

	mutex   sync.Mutex
	current *pool
	// replacedFor is when the request was sent for which the former pool was replaced; 0 once the current one has answered.
	replacedFor int64
	underWay    map[*exchange]struct{}
}

// A pool is a set of connections.
type pool struct {
	client *http.Client
	// closeIdle closes the connections that no request uses. Those of a client of the program stay.
	closeIdle func()
}

// An exchange is a request under way.
type exchange struct {
	request *core.Request
	pool    *pool
	sentAt  int64
	// heard is when the stream had its last line; 0 for a request that is no stream, or has no answer yet.
	heard atomic.Int64
	ctx   context.Context
	end   context.CancelFunc
}

// connectionsOf returns connections with the credentials of the configuration, to be used by nothing else.
func connectionsOf(config *rest.Config, clock clock) (*connections, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + " " + userAgent
	if config.Transport == nil {
		config.NextProtos = []string{"http/1.1"}
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use the address %q of the API server: %w", config.Host, err)
	}
	return newConnections(server.String(), clock, func() (*pool, error) { return newPool(config) })
}

func newConnections(server string, clock clock, build func() (*pool, error)) (*connections, error) {
	pool, err := build()
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", server, err)
	}
	return &connections{
		server:   strings.TrimSuffix(server, "/"),
		clock:    clock,
		build:    build,
		current:  pool,
		underWay: map[*exchange]struct{}{},
	}, nil
}

// newPool returns a pool of the elector's own. Certificates and tokens in files are read anew.
func newPool(config *rest.Config) (*pool, error) {
	transport := config.Transport
	closeIdle := func() { utilnet.CloseIdleConnectionsFor(config.Transport) }
	if transport == nil {
		tls, err := rest.TLSConfigFor(config)
		if err != nil {
			return nil, err
		}
		own := &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:     tls,
			TLSHandshakeTimeout: connectTimeout,
			IdleConnTimeout:     90 * time.Second,
			// The server would compress each watch, which costs both sides more than it saves: the objects are small.
			DisableCompression: true,
		}
		if config.Proxy != nil {
			own.Proxy = config.Proxy
		}
		if config.Dial != nil {
			own.DialContext = config.Dial
		}
		// Not through the wrappers: those of a program need not know how to reach it.
		transport, closeIdle = own, own.CloseIdleConnections
	}
	transport, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	return &pool{clientOf(transport), closeIdle}, nil
}

// clientOf returns a client that follows no redirect: an answer from elsewhere would prove nothing.
func clientOf(transport http.RoundTripper) *http.Client {
	keep := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: keep}
}

// send sends a request of the core and reports what happens to it, until its deadline, the end of the context, or
// [connections.cancel].
func (c *connections) send(ctx context.Context, request *core.Request, report func(core.Event, []byte)) {
	e := c.begin(ctx, request)
	go c.perform(e, report)
}

// cancel ends these requests.
func (c *connections) cancel(ids []uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for e := range c.underWay {
		if slices.Contains(ids, e.request.ID) {
			e.end()
		}
	}
}

func (c *connections) perform(e *exchange, report func(core.Event, []byte)) {
	request := e.request
	defer c.finish(e)
	if e.sentAt >= request.UntilUs {
		// This process was suspended.
		report(failed(request.ID, false, context.DeadlineExceeded), nil)
		return
	}
	go func() {
		if c.clock.sleepUntil(e.ctx, request.UntilUs) {
			c.replace(e)
			e.end()
		}
	}()
	response, isSent, err := c.do(e)
	if err != nil {
		c.replaceAfter(e)
		report(failed(request.ID, isSent, err), nil)
		return
	}
	defer response.Body.Close()
	if request.Stream && response.StatusCode == http.StatusOK {
		c.answered(e)
		readLines(response.Body, request.ID, func(event core.Event, line []byte) {
			e.heard.Store(c.clock.moment())
			report(event, line)
		})
		return
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer+1))
	if err == nil && len(body) > longestAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", longestAnswer)
	}
	if err != nil {
		c.replaceAfter(e)
		report(failed(request.ID, true, err), nil)
		return
	}
	c.answered(e)
	if response.StatusCode == http.StatusUnauthorized {
		// The credentials may belong to the connection.
		c.replace(e)
	}
	retryAfter := response.Header.Get("Retry-After")
	report(core.Event{Event: "answer", ID: request.ID, Status: response.StatusCode, RetryAfter: retryAfter}, body)
}

// do sends a request. isSent is false if certainly nothing of it has left the process.
func (c *connections) do(e *exchange) (_ *http.Response, isSent bool, _ error) {
	request := e.request
	var asked, got atomic.Bool
	ctx := httptrace.WithClientTrace(e.ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	sent, err := http.NewRequestWithContext(ctx, request.Method, c.server+request.Path, strings.NewReader(request.Body))
	if err != nil {
		return nil, false, err
	}
	sent.Header.Set("Accept", "application/json")
	if request.ContentType != "" {
		sent.Header.Set("Content-Type", request.ContentType)
	}
	response, err := e.pool.client.Do(sent)
	// A transport that does not know traces may have sent it.
	return response, !asked.Load() || got.Load(), err
}

// readLines reports each line of a stream, and its end.
func readLines(body io.Reader, id uint64, report func(core.Event, []byte)) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, longestAnswer)
	lines.Split(wholeLines)
	for lines.Scan() {
		report(core.Event{Event: "line", ID: id}, bytes.Clone(lines.Bytes()))
	}
	event := core.Event{Event: "end", ID: id}
	if err := lines.Err(); err != nil {
		event.Text = err.Error()
	}
	report(event, nil)
}

// wholeLines splits a stream into its lines. It drops a line that the end of the stream has cut off, which comes again
// in the next stream.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if at := bytes.IndexByte(data, '\n'); at >= 0 {
		return at + 1, data[:at], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// begin begins an exchange on a connection of the current pool.
func (c *connections) begin(ctx context.Context, request *core.Request) *exchange {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := c.clock.moment()
	// The core may send this request because another one has reached its deadline at this instant.
	for other := range c.underWay {
		if other.request.UntilUs <= now {
			c.replaceLocked(other)
		}
	}
	e := &exchange{request: request, pool: c.current, sentAt: now}
	e.ctx, e.end = context.WithCancel(ctx)
	c.underWay[e] = struct{}{}
	return e
}

func (c *connections) finish(e *exchange) {
	e.end()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.underWay, e)
}

// replace makes later requests use new connections, since this one has no answer. Requests under way go on. Only a
// request of the current pool replaces the pool, so that a server that is merely slow costs at most one handshake for
// each request timeout.
func (c *connections) replace(e *exchange) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.replaceLocked(e)
}

// replaceAfter replaces the pool after a failure, unless the request was ended on purpose. A request that was not sent may
// have failed because a file with certificates has changed, which a new pool reads.
func (c *connections) replaceAfter(e *exchange) {
	if e.ctx.Err() == nil {
		c.replace(e)
	}
}

func (c *connections) replaceLocked(e *exchange) {
	if c.current != e.pool {
		return
	}
	// If the files of the certificates are broken for now, the former client still has the last ones.
	next, err := c.build()
	if err != nil {
		next = &pool{e.pool.client, e.pool.closeIdle}
	}
	c.current, c.replacedFor = next, e.sentAt
	e.pool.closeIdle()
}

// close closes the connections when no request is sent any more.
func (c *connections) close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.current.closeIdle()
}

// answered ends the streams that have been silent since before the request for which the former pool was replaced.
func (c *connections) answered(by *exchange) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	by.heard.Store(c.clock.moment())
	if by.pool != c.current || c.replacedFor == 0 {
		return
	}
	for other := range c.underWay {
		if other.request.Stream && other.pool != c.current && other.heard.Load() < c.replacedFor {
			other.end()
		}
	}
	c.replacedFor = 0
}

func failed(id uint64, isSent bool, err error) core.Event {
	return core.Event{Event: "failed", ID: id, Sent: &isSent, Text: err.Error()}
}
