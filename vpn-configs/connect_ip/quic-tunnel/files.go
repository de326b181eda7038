// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A transfer is what the receiver of an upload tells of it.
type transfer struct {
	Bytes int64 `json:"bytes"`
	// Seconds from the first packet of the connection to the last byte.
	Seconds float64 `json:"seconds"`
}

// An upload is what the sender prints of one.
type upload struct {
	transfer
	HandshakeSeconds float64 `json:"handshake_s"` // until the request could be sent
}

// filesConfig has windows for all that may be under way over GEO, as a tunnel has.
func filesConfig() *quic.Config {
	return &quic.Config{
		Tracer:                         trace,
		InitialStreamReceiveWindow:     2 << 20,
		MaxStreamReceiveWindow:         32 << 20,
		InitialConnectionReceiveWindow: 4 << 20,
		MaxConnectionReceiveWindow:     64 << 20,
	}
}

// began is the key of a connection's context with the time of its first packet.
type began struct{}

// serveFiles serves the files of a directory over HTTP/3, and takes what is uploaded (PUT) without
// keeping it, with a certificate that it makes, until told to stop.
func serveFiles(ctx context.Context, port int, directory string) error {
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	made, err := certificate(secret)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		return err
	}
	transport := &quic.Transport{
		Conn: socket,
		ConnContext: func(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
			return context.WithValue(ctx, began{}, time.Now()), nil
		},
	}
	defer transport.Close()
	settings := http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{made}})
	listener, err := transport.ListenEarly(settings, filesConfig())
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	server := &http3.Server{Handler: http.HandlerFunc(func(writer http.ResponseWriter, asked *http.Request) {
		if asked.Method == http.MethodPut {
			receive(writer, asked)
			return
		}
		answer(writer, asked, root)
	})}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.ServeListener(listener); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return err
	}
	return nil
}

// answer sends a file as it is called: the file server of net/http redirects from index.html.
func answer(writer http.ResponseWriter, asked *http.Request, root *os.Root) {
	file, err := root.Open(strings.TrimPrefix(asked.URL.Path, "/"))
	if err != nil {
		http.NotFound(writer, asked)
		return
	}
	defer file.Close()
	http.ServeContent(writer, asked, "", time.Time{}, file)
}

func receive(writer http.ResponseWriter, asked *http.Request) {
	since := asked.Context().Value(began{}).(time.Time)
	bytes, err := io.Copy(io.Discard, asked.Body)
	if err != nil {
		return // the sender is gone
	}
	_ = json.NewEncoder(writer).Encode(transfer{bytes, time.Since(since).Seconds()})
}

// sendFile uploads so many bytes over HTTP/3 to an address (IP:PORT), within a time, and prints
// what became of them. The server's certificate is its own: nothing vouches for it.
func sendFile(ctx context.Context, address string, bytes int64, limit time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	start := time.Now()
	settings := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}
	connection, err := quic.DialAddr(ctx, address, settings, filesConfig())
	if err != nil {
		return err
	}
	defer closeConnection(connection)
	sent := upload{HandshakeSeconds: time.Since(start).Seconds()}
	asked, err := http.NewRequestWithContext(
		ctx, http.MethodPut, "https://"+address+"/upload", io.LimitReader(zeros{}, bytes),
	)
	if err != nil {
		return err
	}
	asked.ContentLength = bytes
	answer, err := (&http3.Transport{}).NewClientConn(connection).RoundTrip(asked)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered with %s", answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&sent.transfer); err != nil {
		return err
	}
	text, err := json.Marshal(sent)
	if err == nil {
		fmt.Println(string(text))
	}
	return err
}

// zeros have no end.
type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) {
	clear(buffer)
	return len(buffer), nil
}
