// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

const (
	qlogDirectory = "QLOGDIR" // as with quic-go's own programs, and curl
	qlogBuffer    = 1 << 20
	// mostQlogs is the number of connections of which qlog is kept: a program may have thousands.
	mostQlogs = 50
	// qlogLimit is when a program no longer waits for its files. It is killed a second after SIGTERM.
	qlogLimit = 900 * time.Millisecond
)

// qlogs are the files of qlog that this program writes.
var qlogs struct {
	begun   atomic.Int32
	written sync.WaitGroup
}

// trace keeps the qlog of a connection (JSON-SEQ), if the environment names a directory for it:
// quic_0_server.sqlog, quic_1_server.sqlog and so on.
func trace(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	directory := os.Getenv(qlogDirectory)
	if directory == "" {
		return nil
	}
	number := qlogs.begun.Add(1) - 1
	if number >= mostQlogs {
		return nil
	}
	role := "server"
	if isClient {
		role = "client"
	}
	name := fmt.Sprintf("quic_%d_%s.sqlog", number, role)
	file, err := os.OpenFile(filepath.Join(directory, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		log.Printf("no qlog: %v", err)
		return nil
	}
	qlogs.written.Add(1)
	events := &qlogFile{Writer: bufio.NewWriterSize(file, qlogBuffer), file: file}
	written := qlogwriter.NewConnectionFileSeq(events, isClient, id)
	go written.Run()
	return written
}

// A qlogFile is written in large pieces. Its first record, which quic-go writes as a whole, is replaced:
// qvis knows the head of an older draft (qlog 0.3) only, while the events are those that it shows.
type qlogFile struct {
	*bufio.Writer
	file    *os.File
	hasHead bool
}

func (q *qlogFile) Write(text []byte) (int, error) {
	if q.hasHead {
		return q.Writer.Write(text)
	}
	q.hasHead = true
	head, err := headForQvis(text)
	if err == nil {
		_, err = q.Writer.Write(head)
	}
	return len(text), err
}

func headForQvis(text []byte) ([]byte, error) {
	var told struct {
		Title string `json:"title"`
		Trace struct {
			VantagePoint any `json:"vantage_point"`
			CommonFields struct {
				GroupID       string `json:"group_id"`
				ReferenceTime struct {
					WallClockTime time.Time `json:"wall_clock_time"`
				} `json:"reference_time"`
			} `json:"common_fields"`
		} `json:"trace"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte{qlogwriter.RecordSeparator}), &told); err != nil {
		return nil, err
	}
	common := told.Trace.CommonFields
	head, err := json.Marshal(map[string]any{
		"qlog_version": "0.3",
		"qlog_format":  "JSON-SEQ",
		"title":        told.Title,
		"trace": map[string]any{
			"vantage_point": told.Trace.VantagePoint,
			"common_fields": map[string]any{
				"ODCID":          common.GroupID,
				"time_format":    "relative",
				"reference_time": float64(common.ReferenceTime.WallClockTime.UnixNano()) / 1e6,
			},
		},
	})
	return append(append([]byte{qlogwriter.RecordSeparator}, head...), '\n'), err
}

func (q *qlogFile) Close() error {
	defer qlogs.written.Done()
	err := q.Flush()
	if closed := q.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		log.Printf("%s is not whole: %v", q.file.Name(), err)
	}
	return err
}

// waitForQlogs returns when all connections have ended and what they told is written.
func waitForQlogs() {
	if qlogs.begun.Load() == 0 {
		return
	}
	written := make(chan struct{})
	go func() {
		qlogs.written.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(qlogLimit):
		log.Print("qlog is not whole: a connection has not ended")
	}
}
