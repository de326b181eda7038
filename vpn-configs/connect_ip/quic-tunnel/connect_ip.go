// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"

	connectip "github.com/quic-go/connect-ip-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/yosida95/uritemplate/v3"
)

const (
	resource = "https://quic-tunnel/datagram"
	onStream = "https://quic-tunnel/stream"
	protocol = "connect-ip"
)

// datagramCapsule is the type of a capsule that holds what a datagram would (RFC 9297, 3.5).
const datagramCapsule http3.CapsuleType = 0

// anywhere is what either end forwards: which networks are behind it is a matter of its routes, as
// with the other VPNs.
var anywhere = []connectip.IPRoute{{
	StartIP: netip.AddrFrom4([4]byte{}), EndIP: netip.AddrFrom4([4]byte{255, 255, 255, 255}),
}}

// connectIP carries IP packets over HTTP/3 (RFC 9484), until told to stop.
func connectIP(ctx context.Context, one end) error {
	return one.run(ctx, way{
		protocols: []string{http3.NextProtoH3}, answer: one.answer, request: one.request,
	})
}

// request asks the server to carry packets over a connection, and carries them until it ends.
func (one end) request(ctx context.Context, tunnel *tunnel, connection *quic.Conn) error {
	over := (&http3.Transport{EnableDatagrams: true}).NewClientConn(connection)
	if one.carry == "stream" {
		return requestStream(ctx, tunnel, over, connection)
	}
	asked, err := connectip.NewRequest(ctx, uritemplate.MustNew(resource))
	if err != nil {
		return err
	}
	carried, _, err := connectip.NewClientConn(over).Dial(asked)
	if err != nil {
		return err
	}
	return carryDatagrams(ctx, tunnel, carried, connection)
}

// requestStream does the same with each packet in a capsule of the request's stream: connect-ip-go
// knows datagrams only.
func requestStream(ctx context.Context, tunnel *tunnel, over *http3.ClientConn, connection *quic.Conn) error {
	asked, err := http.NewRequestWithContext(ctx, http.MethodConnect, onStream, nil)
	if err != nil {
		return err
	}
	asked.Proto = protocol
	asked.Header.Set(http3.CapsuleProtocolHeader, "?1")
	stream, err := over.OpenRequestStream(ctx)
	if err != nil {
		return err
	}
	if err := stream.SendRequestHeader(asked); err != nil {
		return err
	}
	answer, err := stream.ReadResponse()
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered with %s", answer.Status)
	}
	complete(connection)
	return tunnel.use(newCapsules(stream, connection))
}

// answer is the server's: what a client asks for over its connection is carried until that ends.
func (one end) answer(ctx context.Context, tunnel *tunnel, connection *quic.Conn) error {
	asks := func(writer http.ResponseWriter, asked *http.Request) {
		if asked.Method != http.MethodConnect || asked.Proto != protocol {
			writer.WriteHeader(http.StatusNotImplemented)
			return
		}
		if err := answerRequest(ctx, tunnel, connection, writer, asked); err != nil {
			log.Printf("the tunnel ends: %v", err)
		}
	}
	server := &http3.Server{EnableDatagrams: true, Handler: http.HandlerFunc(asks)}
	return server.ServeQUICConn(connection)
}

func answerRequest(
	ctx context.Context, tunnel *tunnel, connection *quic.Conn, writer http.ResponseWriter, asked *http.Request,
) error {
	if "https://"+asked.Host+asked.URL.Path == onStream {
		writer.Header().Set(http3.CapsuleProtocolHeader, "?1")
		writer.WriteHeader(http.StatusOK)
		stream, err := writer.(http3.HTTPStreamer).HTTPStream()
		if err != nil {
			return err
		}
		complete(connection)
		return tunnel.use(newCapsules(stream, connection))
	}
	known, err := connectip.ParseProxyRequest(asked, uritemplate.MustNew(resource))
	if err != nil {
		writer.WriteHeader(http.StatusBadRequest)
		return err
	}
	carried, err := (&connectip.Proxy{}).Proxy(writer, known)
	if err != nil {
		return err
	}
	return carryDatagrams(ctx, tunnel, carried, connection)
}

// carryDatagrams begins when each end knows what the other one forwards: before, packets would be
// lost.
func carryDatagrams(ctx context.Context, tunnel *tunnel, carried *connectip.Conn, connection *quic.Conn) error {
	if err := carried.AdvertiseRoute(anywhere); err != nil {
		return err
	}
	if _, err := carried.Routes(ctx); err != nil {
		return err
	}
	complete(connection)
	return tunnel.use(datagrams{carried, connection})
}

// complete says what the job counts as a handshake.
func complete(connection *quic.Conn) {
	log.Printf("handshake with %s complete", connection.RemoteAddr())
}

// datagrams carry each packet for itself. What the path loses is lost.
type datagrams struct {
	packets    *connectip.Conn
	connection *quic.Conn
}

func (d datagrams) send(packet []byte) ([]byte, error) { return d.packets.WritePacket(packet) }
func (d datagrams) receive(buffer []byte) (int, error) { return d.packets.ReadPacket(buffer) }
func (d datagrams) close()                             { closeConnection(d.connection) }

// capsules carry all packets in one stream: what the path loses comes again, and the packets after
// it wait.
type capsules struct {
	stream     io.ReadWriter
	parser     *http3.CapsuleParser
	connection *quic.Conn
}

func newCapsules(stream io.ReadWriter, connection *quic.Conn) capsules {
	return capsules{stream, http3.NewCapsuleParser(bufio.NewReader(stream)), connection}
}

func (c capsules) send(packet []byte) ([]byte, error) {
	// In one piece, as one write makes one frame of HTTP/3. The 0 says that it is an IP packet.
	framed := quicvarint.Append(nil, uint64(datagramCapsule))
	framed = quicvarint.Append(framed, uint64(1+len(packet)))
	framed = append(append(framed, 0), packet...)
	_, err := c.stream.Write(framed)
	return nil, err
}

func (c capsules) receive(buffer []byte) (int, error) {
	for {
		kind, capsule, err := c.parser.Next()
		if err != nil {
			return 0, err
		}
		if kind != datagramCapsule {
			if err := capsule.Discard(); err != nil {
				return 0, err
			}
			continue
		}
		length := int(capsule.Remaining()) - 1
		if length < 0 || length > len(buffer) {
			return 0, errors.New("a capsule holds no packet")
		}
		if _, err := capsule.ReadByte(); err != nil {
			return 0, err
		}
		_, err = io.ReadFull(capsule, buffer[:length])
		return length, err
	}
}

func (c capsules) close() { closeConnection(c.connection) }
