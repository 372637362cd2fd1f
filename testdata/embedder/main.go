// Command embedder is a program of somebody else's that has callcell built in:
// it is built outside of this module, by the public packages alone. It reads
// orders, a line of JSON each, and answers each with a line.
//
//	embedder CONFIGURATION < ORDERS > ANSWERS
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/callcell/callcell"
	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
)

// order is one of its fields.
type order struct {
	Call json.RawMessage `json:"call"` // as a model may have sent it
	Pull *client.Pull    `json:"pull"`
	Drop string          `json:"drop"` // an image
}

type answer struct {
	Result *envelope.Result `json:"result,omitempty"`
	Image  *client.Image    `json:"image,omitempty"`
	Error  string           `json:"error,omitempty"`
	Ended  []string         `json:"ended,omitempty"` // refusals that Config.Ended was told of
}

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string) error {
	conf, err := callcell.LoadConfig(path)
	if err != nil {
		return err
	}
	var refused []string // the orders come one by one
	conf.Warn = func(text string) { fmt.Fprintln(os.Stderr, text) }
	conf.Ended = func(_ *envelope.Call, r *envelope.Result) {
		if r.Refusal != nil {
			refused = append(refused, r.ID+" "+r.Refusal.Reason.String())
		}
	}
	cells, err := callcell.New(ctx, conf)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); refused = nil {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		a := obey(ctx, cells, &o)
		a.Ended = refused
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return cells.Close()
}

func obey(ctx context.Context, cells *callcell.Callcell, o *order) (a answer) {
	var err error
	switch images := cells.Images(); {
	case o.Pull != nil:
		a.Image, err = images.Pull(ctx, *o.Pull)
	case o.Drop != "":
		if err = images.Remove(ctx, o.Drop); err == nil {
			_, err = images.Collect(ctx, false)
		}
	default:
		return answer{Result: decoded(ctx, cells, o.Call)}
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func decoded(ctx context.Context, cells *callcell.Callcell, sent []byte) *envelope.Result {
	call, err := envelope.DecodeCall(sent)
	if err != nil {
		return &envelope.Result{Refusal: envelope.RefusalOf(err)}
	}
	return cells.Run(ctx, &call)
}
