package callcell_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/callcell/callcell"
	"github.com/callcell/callcell/client"
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

// The configuration of the host, as the commands and the daemon have it, and
// what only this program can say.
func ExampleLoadConfig() {
	conf, err := callcell.LoadConfig("/etc/callcell/callcell.yaml")
	var fault *callcell.ConfigError
	if errors.As(err, &fault) {
		log.Fatal(fault, "; ", fault.Hint) // callcell: FILE:LINE:COLUMN: field: ...
	}
	conf.Helpers = "/usr/lib/callcell"
	conf.Caller = "planner"
	conf.Warn = func(text string) { log.Print(text) }
	conf.Ended = func(call *envelope.Call, r *envelope.Result) {
		if r.Refusal != nil {
			log.Printf("%s was refused: %v", call.Tool, r.Refusal)
		}
	}
	for _, text := range conf.Warnings() {
		log.Print(text)
	}
	cells, err := callcell.New(context.Background(), conf)
	if err != nil {
		log.Fatal(err)
	}
	defer cells.Close()
}

// A document can be part of the program: what it may reach, with which
// credentials, and who hears of it. It is held to the checks of a file.
func ExampleParseConfig() {
	const document = `
state: /var/lib/agent
helpers: /usr/lib/callcell
defaultProfile: issues
profiles:
  issues:
    trust: reviewed
    network: {allow: [{host: api.example.com, ports: [443]}]}
    credentials:
      api: {source: "vault:kv/agents/api#token", use: {header: Authorization, format: "Bearer {}", host: api.example.com, methods: [GET], path: /issues/}}
credentials: {vault: {address: "https://vault.example.com:8200", token: "file:/etc/agent/vault-token"}}
audit: {anchors: [{file: /mnt/other/checkpoints}]}
telemetry: {endpoint: "https://otel.example.com:4318/v1/traces"}
`
	conf, err := callcell.ParseConfig("agent.yaml", []byte(document))
	fmt.Println(conf.DefaultProfile, err)
	_, err = callcell.ParseConfig("agent.yaml", []byte("egress: {limits: {bytes: 1024}}"))
	fmt.Println(err)
	// Output:
	// issues <nil>
	// callcell: agent.yaml:1:19: egress.limits.bytes: bad size "1024": want a whole number with a unit: B, Ki, Mi, Gi or Ti (64Mi)
}

// A fetch is a call like any other: it reaches what its profile allows, and has
// a row.
func ExampleCallcell_Run_fetch() {
	var cells *callcell.Callcell // of New
	r := cells.Run(context.Background(), &envelope.Call{Profile: "issues", Fetch: &envelope.Fetch{URL: "https://api.example.com/issues/7"}})
	if r.Refusal != nil {
		fmt.Println(r.Refusal, r.Refusal.Hint)
		return
	}
	fmt.Printf("%d %q\n", r.Fetched.Status, r.Fetched.Body) // data of a stranger
}

// A call can be part of the trace of the request that it is made for.
func ExampleWithTraceparent() {
	var cells *callcell.Callcell // of New
	ctx := callcell.WithTraceparent(context.Background(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	cells.Run(ctx, &envelope.Call{Argv: []string{"true"}})
}

// A working tree goes in, and what became of it is applied where that is wanted.
func ExampleCallcell_ReadTree() {
	var cells *callcell.Callcell // of New
	ctx := context.Background()
	tree, err := cells.ReadTree(ctx, "/srv/project", callcell.TreeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	r := cells.Run(ctx, &envelope.Call{Tree: tree.Call(), Argv: []string{"gofmt", "-w", "."}})
	if !r.OK() {
		return
	}
	plan := tree.Plan(r.Changes)
	for _, note := range plan.Warnings {
		fmt.Printf("look twice: %q: %s\n", note.Name, note.Why)
	}
	if err := plan.Apply(); errors.Is(err, callcell.ErrConflict) {
		fmt.Println("the tree has changed meanwhile; nothing was written")
	}
}

// What calls need beyond the host's own programs is built once, in a cell.
func ExampleCallcell_Images() {
	var cells *callcell.Callcell // of New
	ctx := context.Background()
	if _, err := cells.Images().Snapshot(ctx); err != nil { // for level userkernel
		log.Fatal(err)
	}
	image, err := cells.Images().Build(ctx, client.Build{Name: "data", Pip: []string{"numpy"}, PipIndex: "https://index.example.com/simple",
		Reach: client.Reach{Allow: []envelope.Allow{{Host: "files.example.com", Ports: []int{443}}}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(image.Name, image.Digest) // a profile has it with image: build:data
}

// A workspace lives on: a call reads its newest version and writes the next.
func ExampleCallcell_Workspaces() {
	var cells *callcell.Callcell // of New
	ctx := context.Background()
	r := cells.Run(ctx, &envelope.Call{Workspace: &envelope.Workspace{Name: "notes"}, Argv: []string{"sh", "-c", "date >>log"}})
	if r.Workspace == nil || r.Workspace.Wrote == 0 {
		return // refused, or not written: r.Workspace.Why
	}
	tree, err := cells.Workspaces().Read(ctx, "notes", r.Workspace.Wrote)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(tree.Files))
}
