// Command house is a program that lives on between calls: it reads calls, a
// line of JSON each, runs each as it comes, and prints their results.
//
//	house CONFIGURATION < CALLS > RESULTS
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
)

type request struct {
	N    int            `json:"n"`
	Team string         `json:"team"`
	Call *envelope.Call `json:"call"`
}

type reply struct {
	N      int              `json:"n"`
	Result *envelope.Result `json:"result"`
}

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) error {
	conf, err := config.Load(path, config.Host{})
	if err != nil {
		return err
	}
	house, err := assembly.Open(ctx, assembly.Start(conf), assembly.Options{Config: conf})
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	var mu sync.Mutex // guards out
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return err
		}
		calls.Go(func() {
			result := house.Broker.Run(ctx, broker.Caller{Name: "house", Team: r.Team}, r.Call)
			mu.Lock()
			defer mu.Unlock()
			if err := out.Encode(reply{r.N, result}); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	calls.Wait()
	return house.Close(ctx)
}
