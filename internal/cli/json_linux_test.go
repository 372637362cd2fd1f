package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// cmdNormalise makes the JSON that the last command printed comparable, with
// sorted keys, a line each, and a word for what differs from run to run:
//
//	normalise FILE
func cmdNormalise(ts *testscript.TestScript, _ bool, args []string) {
	var v any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	ts.Check(d.Decode(&v))
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("more than one JSON value")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	ts.Check(e.Encode(normal("", v)))
	fmt.Fprint(ts.Stdout(), out.String())
}

func normal(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = normal(k, v[k])
		}
	case []any:
		for i := range v {
			v[i] = normal(key, v[i])
		}
	case json.Number:
		if strings.HasSuffix(key, "Ns") || key == "memoryPeak" || key == "pidsPeak" || key == "scratchInUse" {
			if n, err := v.Int64(); err == nil && n >= 0 {
				return "A NUMBER"
			}
		}
	case string:
		switch {
		case key == "id" && len(v) == 36:
			return "AN ID"
		case key == "instance" && len(v) == 36:
			return "AN INSTANCE"
		case key == "key" && len(v) == 16:
			return "A KEY"
		case key == "signature" && len(v) == 88:
			return "A SIGNATURE"
		case key == "head" && len(v) == 64:
			return "A HASH"
		case strings.HasPrefix(v, "sha256:") && len(v) == 71:
			return "A DIGEST"
		}
	}
	return v
}

// cmdReceipt keeps the receipt of the result that was printed last:
//
//	receipt VARIABLE
func cmdReceipt(ts *testscript.TestScript, _ bool, args []string) {
	var r envelope.Result
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &r))
	if r.Receipt == nil || r.Receipt.Chain != audit.DefaultChain {
		ts.Fatalf("receipt %+v", r.Receipt)
	}
	ts.Setenv(args[0], fmt.Sprintf("%d:%s", r.Receipt.Seq, r.Receipt.Head))
	ts.Setenv(args[0]+"_ID", r.ID)
}

// cmdFifo makes a named pipe:
//
//	fifo NAME
func cmdFifo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}
