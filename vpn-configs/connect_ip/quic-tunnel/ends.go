// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"log"
	"net"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

const (
	connectionIDBytes = 4
	noError           = 0x100 // of HTTP/3 (RFC 9114, 8.1)
	retryAfter        = time.Second
	streams           = 1 << 20 // at a time
)

// A use of a connection carries packets over it until it ends.
type use func(context.Context, *tunnel, *quic.Conn) error

// A way of carrying packets: its protocols in TLS (ALPN), the first one being a tunnel's, and what
// the ends do with a connection.
type way struct {
	protocols       []string
	answer, request use
	// dials, if any, learns at the client how to make a connection of any of the protocols.
	dials func(func(context.Context, string) (*quic.Conn, error))
}

// run is one end of a tunnel, until told to stop: a server that lets clients in, or a client that
// connects again and again.
func (one end) run(ctx context.Context, way way) error {
	device, err := openTUN(one.device)
	if err != nil {
		return err
	}
	defer device.Close()
	settings, reset, err := one.keys(way.protocols)
	if err != nil {
		return err
	}
	// A client takes whichever address it has at the time.
	local := &net.UDPAddr{Port: int(one.address.Port())}
	if one.isServer {
		local.IP = one.address.Addr().AsSlice()
	}
	bound, err := net.ListenUDP("udp4", local)
	if err != nil {
		return err
	}
	transport := &quic.Transport{
		Conn: socket{bound}, ConnectionIDLength: connectionIDBytes, StatelessResetKey: reset,
	}
	tunnel := newTunnel(device)
	ended := make(chan error, 2)
	go func() { ended <- tunnel.carry() }()
	go func() {
		if one.isServer {
			listener, err := transport.Listen(settings, one.quicConfig())
			if err == nil {
				err = accept(ctx, tunnel, listener, way.answer)
			}
			ended <- err
			return
		}
		dial := func(ctx context.Context, protocol string) (*quic.Conn, error) {
			of := settings.Clone()
			of.NextProtos = []string{protocol}
			return transport.Dial(ctx, net.UDPAddrFromAddrPort(one.address), of, one.quicConfig())
		}
		if way.dials != nil {
			way.dials(dial)
		}
		ended <- connect(ctx, tunnel, func() (*quic.Conn, error) {
			return dial(ctx, way.protocols[0])
		}, way.request)
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	tunnel.close()
	if closed := transport.Close(); err == nil || errors.Is(err, context.Canceled) {
		err = closed
	}
	return err
}

// A socket loses what has no way out at the time, as the path does: quic-go would end the connection,
// and with it all that is in the tunnel, for as little as a change of a route.
type socket struct{ *net.UDPConn }

func (s socket) WriteMsgUDP(packet, control []byte, to *net.UDPAddr) (int, int, error) {
	written, controls, err := s.UDPConn.WriteMsgUDP(packet, control, to)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETDOWN) {
		return len(packet), len(control), nil
	}
	return written, controls, err
}

// quicConfig returns the settings of a connection. A tunnel that nobody uses stays, as that of
// WireGuard does.
func (one end) quicConfig() *quic.Config {
	return &quic.Config{
		Tracer:                  trace,
		EnableDatagrams:         true,
		InitialPacketSize:       uint16(one.packetBytes), // the path takes it: no search for another
		DisablePathMTUDiscovery: true,
		MaxIdleTimeout:          24 * time.Hour,
		HandshakeIdleTimeout:    5*time.Second + 4*one.roundTrip,
		KeepAlivePeriod:         one.keepalive,
		MaxIncomingStreams:      streams,
		// Of all that may be under way over GEO: what limits is the congestion window.
		InitialStreamReceiveWindow:     2 << 20,
		MaxStreamReceiveWindow:         32 << 20,
		InitialConnectionReceiveWindow: 4 << 20,
		MaxConnectionReceiveWindow:     64 << 20,
	}
}

// accept lets the client in, again and again: its last connection is the tunnel.
func accept(ctx context.Context, tunnel *tunnel, listener *quic.Listener, answer use) error {
	for {
		connection, err := listener.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			defer closeConnection(connection)
			if err := answer(ctx, tunnel, connection); err != nil && ctx.Err() == nil {
				log.Printf("the connection from %s ended: %v", connection.RemoteAddr(), err)
			}
		}()
	}
}

// connect keeps a connection to the server. It ends when the server does not let this end in.
func connect(ctx context.Context, tunnel *tunnel, dial func() (*quic.Conn, error), request use) error {
	for {
		connection, err := dial()
		if err == nil {
			err = request(ctx, tunnel, connection)
			closeConnection(connection)
		}
		if ctx.Err() != nil || isRefusal(err) {
			return err
		}
		log.Printf("the tunnel begins anew: %v", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryAfter): // what fails at once (no route yet) would fill the log
		}
	}
}

// isRefusal says whether one end does not know the other, so that it is no use to try again.
func isRefusal(err error) bool {
	var failed *quic.TransportError
	return errors.As(err, &failed) && failed.ErrorCode.IsCryptoError()
}

func closeConnection(connection *quic.Conn) { _ = connection.CloseWithError(noError, "") }
