// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

// Connections of TCP end here: each goes on as a stream of QUIC, and from the other end as a
// connection of TCP again. All other packets go as datagrams.
//
//	host ── TCP ── split ══ QUIC: a stream each ══ split ── TCP ── host
//
// The first bytes of a stream say between which addresses its connection is (address).
const (
	splitSession = "openbach-split"     // a tunnel: datagrams, and streams
	splitSingle  = "openbach-split-one" // a connection of QUIC for one of TCP
	wasReset     = 1                    // code of a stream whose connection was reset
	notReached   = 2                    // code of a stream whose connection nobody takes
	copyBytes    = 64 << 10
	// mostConnections from this side's hosts are carried at a time; the other side has as many.
	mostConnections = 30_000
)

var buffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// A splitter has what both directions of a split need.
type splitter struct {
	end
	sessions *sessions
	single   func() (*quic.Conn, error) // another connection of QUIC; nil: all share one
}

// split ends TCP connections and carries what is in them, until told to stop.
func split(ctx context.Context, one end) error {
	most := &unix.Rlimit{Cur: 3 * mostConnections, Max: 3 * mostConnections}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, most); err != nil {
		return fmt.Errorf("no more open files: %w", err)
	}
	listener, err := one.listen(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	s := &splitter{end: one, sessions: newSessions()}
	go s.take(listener)
	way := way{protocols: []string{splitSession, splitSingle}, answer: s.use, request: s.use}
	if one.sessions == "each" {
		way.dials = func(dial func(context.Context, string) (*quic.Conn, error)) {
			s.single = func() (*quic.Conn, error) { return dial(ctx, splitSingle) }
		}
	}
	return one.run(ctx, way)
}

// use carries packets and streams over a connection until it ends.
func (s *splitter) use(ctx context.Context, tunnel *tunnel, connection *quic.Conn) error {
	if connection.ConnectionState().TLS.NegotiatedProtocol == splitSingle {
		return s.useSingle(ctx, connection)
	}
	complete(connection)
	s.sessions.set(connection)
	defer s.sessions.leave(connection)
	go func() {
		for {
			stream, err := connection.AcceptStream(ctx)
			if err != nil {
				return
			}
			go s.goOn(stream)
		}
	}()
	return tunnel.use(packets{connection})
}

// useSingle carries the one stream of a connection. The end that made it must not end it before all
// has arrived: this one says so.
func (s *splitter) useSingle(ctx context.Context, connection *quic.Conn) error {
	stream, err := connection.AcceptStream(ctx)
	if err != nil {
		return err
	}
	s.goOn(stream)
	arrived, err := connection.OpenUniStream()
	if err != nil {
		return err
	}
	if err := arrived.Close(); err != nil {
		return err
	}
	<-connection.Context().Done()
	return nil
}

// packets go as they are, each in a datagram.
type packets struct{ *quic.Conn }

func (p packets) send(packet []byte) ([]byte, error) { return nil, p.SendDatagram(packet) }
func (p packets) close()                             { closeConnection(p.Conn) }
func (p packets) receive(buffer []byte) (int, error) {
	packet, err := p.ReceiveDatagram(context.Background())
	return copy(buffer, packet), err
}

// sessions is the connection of QUIC that the streams of new connections go over.
type sessions struct {
	changed *sync.Cond
	now     *quic.Conn
}

func newSessions() *sessions { return &sessions{changed: sync.NewCond(&sync.Mutex{})} }

func (s *sessions) set(connection *quic.Conn) {
	s.changed.L.Lock()
	s.now = connection
	s.changed.L.Unlock()
	s.changed.Broadcast()
}

func (s *sessions) leave(connection *quic.Conn) {
	s.changed.L.Lock()
	defer s.changed.L.Unlock()
	if s.now == connection {
		s.now = nil
	}
}

func (s *sessions) wait() *quic.Conn {
	s.changed.L.Lock()
	defer s.changed.L.Unlock()
	for s.now == nil {
		s.changed.Wait()
	}
	return s.now
}

// listen takes the connections that nftables hands over, whatever their addresses are.
func (one end) listen(ctx context.Context) (*net.TCPListener, error) {
	settings := net.ListenConfig{KeepAlive: -1, Control: one.transparent}
	listener, err := settings.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", one.tcpPort))
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// transparent prepares a socket of TCP: any address may be its own, urgent data is in its place
// among the other, and its packets are marked, so that they are counted.
func (one end) transparent(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(descriptor uintptr) {
		failed = errors.Join(
			unix.SetsockoptInt(int(descriptor), unix.SOL_IP, unix.IP_TRANSPARENT, 1),
			// A host may use a port again of which this end still waits for late packets.
			unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_OOBINLINE, 1),
			unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_MARK, one.mark),
		)
	})
	return errors.Join(err, failed)
}

func (s *splitter) take(listener *net.TCPListener) {
	room := make(chan struct{}, mostConnections) // further ones wait in the kernel's queue
	for {
		room <- struct{}{}
		connection, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the connection is gone before it was taken
			log.Printf("a connection is lost: %v", err)
			<-room
			continue
		}
		go func() {
			defer func() { <-room }()
			s.begin(connection)
		}()
	}
}

// begin gives a connection a stream.
func (s *splitter) begin(connection *net.TCPConn) {
	from, to := addressOf(connection.RemoteAddr()), addressOf(connection.LocalAddr())
	session := s.sessions.wait()
	if s.single != nil {
		single, err := s.single()
		if err != nil {
			log.Printf("%s to %s is reset: %v", from, to, err)
			reset(connection)
			return
		}
		defer closeConnection(single)
		defer single.AcceptUniStream(single.Context()) // useSingle of the other end
		session = single
	}
	var stream *quic.Stream
	var err error
	apart(func() {
		stream, err = session.OpenStreamSync(session.Context())
		if err == nil {
			_, err = stream.Write(header(from, to))
		}
	})
	if err != nil {
		log.Printf("%s to %s is reset: %v", from, to, err)
		reset(connection)
		return
	}
	relay(connection, stream)
}

// goOn is the other end of a stream: it connects to where its connection was going, from where it
// came.
func (s *splitter) goOn(stream *quic.Stream) {
	var connection net.Conn
	apart(func() { connection = s.reach(stream) })
	if connection != nil {
		relay(connection.(*net.TCPConn), stream)
	}
}

// reach makes the connection that a stream asks for. It returns nil, and tells the other end, where
// there is none.
func (s *splitter) reach(stream *quic.Stream) net.Conn {
	var head [headerBytes]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		abort(stream, wasReset)
		return nil
	}
	from, to := addresses(head)
	dialer := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(from), KeepAlive: -1, Control: s.transparent,
		Timeout: connectLimit,
	}
	connection, err := dialer.Dial("tcp4", to.String())
	if err != nil {
		log.Printf("%s to %s is refused: %v", from, to, err)
		abort(stream, notReached)
		return nil
	}
	return connection
}

const (
	headerBytes  = 12
	connectLimit = 130 * time.Second // of Linux with its 6 repetitions of a SYN
)

func header(from, to netip.AddrPort) []byte {
	head := make([]byte, 0, headerBytes)
	for _, one := range []netip.AddrPort{from, to} {
		head = append(head, one.Addr().AsSlice()...)
		head = binary.BigEndian.AppendUint16(head, one.Port())
	}
	return head
}

func addresses(head [headerBytes]byte) (from, to netip.AddrPort) {
	one := func(bytes []byte) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(bytes)), binary.BigEndian.Uint16(bytes[4:]))
	}
	return one(head[:6]), one(head[6:])
}

func addressOf(address net.Addr) netip.AddrPort {
	shown := address.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(shown.Addr().Unmap(), shown.Port())
}

// relay carries both directions of a connection until both have ended. An end of data, a reset and
// a reader who takes nothing are each passed on as what they are.
func relay(connection *net.TCPConn, stream *quic.Stream) {
	// The other end may have no more to say, and be reset: this one need not wait for its own host.
	defer context.AfterFunc(stream.Context(), func() {
		var ended *quic.StreamError
		if errors.As(context.Cause(stream.Context()), &ended) && ended.Remote {
			reset(connection)
		}
	})()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		toStream(connection, stream)
	}()
	fromStream(connection, stream)
	<-ended
	connection.Close()
}

// apart does work in a goroutine that ends with it, and waits. Work takes several times the stack of
// waiting, and a goroutine keeps what it has had: connections may be many, and idle.
func apart(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	<-done
}

func toStream(connection *net.TCPConn, stream *quic.Stream) {
	goesOn := true
	for goesOn {
		waitReadable(connection)
		apart(func() { goesOn = sendOn(connection, stream) })
	}
}

// sendOn sends what a connection has brought, and says whether more may come.
func sendOn(connection *net.TCPConn, stream *quic.Stream) bool {
	buffer := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(buffer)
	length, err := readNow(connection, buffer[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return true
	case err != nil:
		abort(stream, wasReset)
		return false
	case length == 0:
		stream.Close()
		go watch(connection, stream)
		return false
	}
	if _, err := stream.Write(buffer[:length]); err != nil {
		stream.CancelWrite(wasReset)
		reset(connection)
		return false
	}
	return true
}

// watch waits for a reset after the end of what a connection brings, until the connection is closed.
func watch(connection *net.TCPConn, stream *quic.Stream) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return
	}
	// After the end a read only tells that again.
	isReset := func(descriptor uintptr) bool {
		number, err := unix.GetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_ERROR)
		return err == nil && number != 0
	}
	if raw.Read(isReset) == nil {
		abort(stream, wasReset)
	}
}

// waitReadable returns when a connection has something to read, an end or an error.
func waitReadable(connection *net.TCPConn) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return // it is closed, which reading tells
	}
	_ = raw.Read(func(descriptor uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}}
		number, err := unix.Poll(ready, 0)
		return err != nil || number > 0
	})
}

// readNow reads what is there; unix.EAGAIN says that nothing is.
func readNow(connection *net.TCPConn, buffer []byte) (length int, err error) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Read(func(descriptor uintptr) bool {
		length, failed = unix.Read(int(descriptor), buffer)
		for failed == unix.EINTR {
			length, failed = unix.Read(int(descriptor), buffer)
		}
		return true
	})
	return length, errors.Join(err, failed)
}

func fromStream(connection *net.TCPConn, stream *quic.Stream) {
	var first [1]byte
	for goesOn := true; goesOn; {
		_, err := stream.Peek(first[:])
		apart(func() { goesOn = deliverOn(connection, stream, err) })
	}
}

// deliverOn gives a connection what its stream has brought, after an error none, and says whether
// more may come.
func deliverOn(connection *net.TCPConn, stream *quic.Stream, err error) bool {
	if err == nil {
		buffer := buffers.Get().(*[copyBytes]byte)
		defer buffers.Put(buffer)
		var length int
		length, err = stream.Read(buffer[:])
		if _, failed := connection.Write(buffer[:length]); failed != nil {
			abort(stream, wasReset)
			return false
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		connection.CloseWrite()
		return false
	case err != nil:
		stream.CancelWrite(wasReset)
		reset(connection)
		return false
	}
	return true
}

// reset ends a connection as it was ended at the other end of the tunnel.
func reset(connection *net.TCPConn) {
	_ = connection.SetLinger(0)
	connection.Close()
}

func abort(stream *quic.Stream, code quic.StreamErrorCode) {
	stream.CancelRead(code)
	stream.CancelWrite(code)
}
