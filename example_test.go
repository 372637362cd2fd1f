package callcell_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/callcell/callcell"
	"github.com/callcell/callcell/envelope"
)

// A program names where the helpers are, and what calls may touch; a call then
// says what to run.
func Example() {
	small := envelope.Default()
	small.Trust = envelope.TrustReviewed // people have read this code
	small.Resources.Memory = 64 * envelope.MiB
	small.Resources.Wall = envelope.Duration(5 * time.Second)

	ctx := context.Background()
	cells, err := callcell.New(ctx, callcell.Config{
		State:    "/var/lib/agent",
		Helpers:  "/usr/lib/callcell",
		Profiles: map[string]envelope.Envelope{"small": small},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer cells.Close()

	result := cells.Run(ctx, &envelope.Call{
		Tool: "count", Task: "conversation-7", Profile: "small",
		Argv:   []string{"wc", "-l", "data.csv"},
		Inputs: []envelope.File{{Name: "data.csv", Data: []byte("a,b\n1,2\n")}},
	})
	switch {
	case result.Refusal != nil: // nothing ran
		fmt.Println(result.Refusal, result.Refusal.Hint)
	case result.OK():
		fmt.Printf("%q\n", result.Stdout.Head) // data of a program, not words of ours
	default:
		fmt.Println(result.Outcome, result.Exit.Code)
	}
}

// What a model sent is decoded strictly and handed on as it is: it can narrow
// its profile, never widen it.
func ExampleCallcell_Run() {
	var cells *callcell.Callcell // of New
	answer := func(sent []byte) *envelope.Result {
		call, err := envelope.DecodeCall(sent)
		if err != nil {
			return &envelope.Result{Refusal: envelope.RefusalOf(err)}
		}
		return cells.Run(context.Background(), &call)
	}
	r := answer([]byte(`{"script": {"lang": "python", "code": "print(6*7)"}, "mounts": ["/etc"]}`))
	fmt.Println(r.Refusal)
	// Output: request: mounts: unknown key "mounts"
}
