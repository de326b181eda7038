// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
)

var notThePeer = errors.New("the other end has another key than it told")

// makeKey writes a new key to a file that nobody else can read, and prints its public half.
func makeKey(file string) error {
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(encode(secret.Seed())), 0o600); err != nil {
		return err
	}
	_, err = fmt.Print(encode(public))
	return err
}

func encode(key []byte) string {
	return base64.StdEncoding.EncodeToString(key) + "\n"
}

func decode(file string, length int) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != length {
		return nil, fmt.Errorf("%s: no key of %d bytes in Base64", file, length)
	}
	return key, nil
}

// keys returns the settings of TLS by which both ends know each other by their keys, and the key
// of stateless resets, by which a server that began anew tells its client.
func (one end) keys(protocols []string) (*tls.Config, *quic.StatelessResetKey, error) {
	seed, err := decode(one.key, ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	peer, err := decode(one.peer, ed25519.PublicKeySize)
	if err != nil {
		return nil, nil, err
	}
	secret := ed25519.NewKeyFromSeed(seed)
	made, err := certificate(secret)
	if err != nil {
		return nil, nil, err
	}
	reset := quic.StatelessResetKey(sha256.Sum256(append([]byte("stateless reset"), seed...)))
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             protocols,
		Certificates:           []tls.Certificate{made},
		ClientAuth:             tls.RequireAnyClientCert,
		ServerName:             "quic-tunnel",
		InsecureSkipVerify:     true, // by a name, which means nothing here: VerifyConnection does it by key
		SessionTicketsDisabled: true, // each handshake shows the keys
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return notThePeer
			}
			key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok || !bytes.Equal(key, peer) {
				return notThePeer
			}
			return nil
		},
	}, &reset, nil
}

// certificate returns one for a key, by itself. Nobody reads its dates or names: the key in it is
// what ends compare.
func certificate(secret ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "quic-tunnel"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: secret}, err
}
