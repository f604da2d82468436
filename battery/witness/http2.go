package witness

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// serveTwo serves HTTP/2, whose preface has been seen, on a connection until it
// ends.
func serveTwo(c net.Conn, handler http.HandlerFunc) {
	_ = c.SetDeadline(time.Time{}) // the server sets its own, within the connection's life
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: handler, Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: keepAliveTime, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	only := &single{closed: make(chan struct{})}
	only.conn = &closing{Conn: c, closed: only.closed}
	_ = srv.Serve(only) // ends with the connection
}

// single is a listener of one connection, which has been accepted already.
type single struct {
	conn   net.Conn
	once   bool
	closed chan struct{} // closed with the connection
}

// Accept returns the connection, then waits for its end.
func (s *single) Accept() (net.Conn, error) {
	if !s.once {
		s.once = true
		return s.conn, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

// Close does nothing: the connection's end is the listener's.
func (s *single) Close() error { return nil }

// Addr is the connection's own end.
func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }

// closing tells when a connection is closed.
type closing struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Close closes the connection and tells.
func (c *closing) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}
