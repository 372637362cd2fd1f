package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/render"
)

// auditVerifyCmd is "callcell audit verify".
type auditVerifyCmd struct {
	Against []string `help:"What was kept elsewhere: a file of checkpoints, as an anchor has it, or a receipt as SEQ:HEAD." placeholder:"FILE" sep:"none"`
	Receipt []string `help:"A file with a receipt, or with a whole result that has one; - is standard input." placeholder:"FILE" sep:"none"`
	Pubkey  string   `help:"The log's public key, from elsewhere: as audit key prints it, or a file with that." placeholder:"KEY"`
	JSON    bool     `name:"json" help:"Print the report as JSON."`
}

// Help is the long text of "callcell audit verify --help".
func (*auditVerifyCmd) Help() string {
	return `Finds any event that was edited, removed, added or moved, and any body that is gone without a
word, and says where. Who holds the store can cut off its end, or write all of it anew; what was
kept elsewhere finds that too: a receipt of a result (run --json), or an anchor's checkpoints.

  callcell audit verify --against 42:3f9a...
  callcell run --json -- make | tee result.json; callcell audit verify --receipt result.json
  callcell audit verify --against /mnt/other/callcell.checkpoints --pubkey ed25519:8k3X...

With --pubkey every signature is checked, and the checkpoints in the log itself vouch for what is
before them, against anybody who does not hold the key. Exit status 1 where the chain is not intact,
or something was not signed with the key.`
}

// Run verifies the chain; the exit status is 1 if anything is wrong.
func (c *auditVerifyCmd) Run(a *app) error {
	o, err := c.options(a)
	if err != nil {
		return logFailure(err)
	}
	return withLog(a, func(log *audit.Log) error {
		report, err := a.verify(log, o, c.JSON)
		if err != nil {
			return err
		}
		if !report.Intact() {
			a.status = exitNo
		}
		if c.JSON {
			return a.json(&report, a.outTTY)
		}
		if err := a.verified(&report); err != nil {
			return err
		}
		if len(c.Against)+len(c.Receipt) == 0 && report.Intact() {
			a.hint("what was cut off its end is found by what is kept elsewhere: --receipt, --against")
		}
		return nil
	})
}

// verify walks the chain, and shows how far that is.
func (a *app) verify(log *audit.Log, o audit.VerifyOptions, silent bool) (audit.VerifyReport, error) {
	if a.errTTY {
		o.Progress = a.progressBar()
		defer fmt.Fprint(a.err, "\r\x1b[K")
		return log.Verify(a.ctx, o)
	}
	var events walked
	o.Progress = events.set
	defer a.meanwhile("audit verify", silent, events.now("events"))()
	return log.Verify(a.ctx, o)
}

func (c *auditVerifyCmd) options(a *app) (o audit.VerifyOptions, err error) {
	if c.Pubkey != "" {
		key, err := parseKey(c.Pubkey)
		if err != nil {
			return o, err
		}
		o.Key = &key
	}
	for _, text := range c.Against {
		if isFile(text) {
			list, err := a.checkpointsIn(text)
			if err != nil {
				return o, err
			}
			o.Checkpoints = append(o.Checkpoints, list...)
			continue
		}
		receipt, err := parseReceipt(text)
		if err != nil {
			return o, err
		}
		o.Against = append(o.Against, receipt)
	}
	for _, name := range c.Receipt {
		receipt, err := a.receiptIn(name)
		if err != nil {
			return o, err
		}
		if o.Key != nil && receipt.Signature == "" {
			return o, fmt.Errorf("%w: the receipt in %s has none", audit.ErrSignature, name)
		}
		o.Against = append(o.Against, receipt)
	}
	if o.Key == nil && len(o.Checkpoints)+len(c.Receipt) > 0 {
		a.say("signatures are not checked: name the key with --pubkey, as you know it from elsewhere")
	}
	return o, nil
}

// isFile tells a file from a receipt: SEQ:HEAD.
func isFile(text string) bool {
	number, _, colon := strings.Cut(text, ":")
	if _, err := strconv.ParseInt(number, 10, 64); colon && err == nil {
		return false
	}
	_, err := os.Stat(text)
	return err == nil
}

func (a *app) checkpointsIn(name string) ([]audit.Checkpoint, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage(err.Error(), "name a file of checkpoints")
	}
	defer f.Close()
	list, skipped, err := audit.ReadCheckpoints(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(list) == 0:
		return nil, fmt.Errorf("%w: %s: there is no checkpoint in it", audit.ErrReceipt, name)
	case skipped > 0:
		a.say(fmt.Sprintf("%s: %d lines that are no checkpoints were skipped", name, skipped))
	}
	return list, nil
}

// maxReceipt bounds a file with a result, in bytes.
const maxReceipt = 64 << 20

// receiptIn reads a receipt, or the one of a result.
func (a *app) receiptIn(name string) (r envelope.Receipt, err error) {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return r, usage(err.Error(), "name a file with a receipt")
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxReceipt))
	if err != nil {
		return r, err
	}
	var result struct {
		Receipt *envelope.Receipt `json:"receipt"`
	}
	if err = json.Unmarshal(text, &result); err == nil && result.Receipt != nil {
		return *result.Receipt, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || r.Head == "" {
		return r, usage(name+": there is no receipt in it", "callcell run --json prints a result, which has one")
	}
	return r, nil
}

// parseKey parses a public key, or a file with one.
func parseKey(text string) (audit.PublicKey, error) {
	if strings.HasPrefix(text, "ed25519:") {
		return audit.ParsePublicKey(text)
	}
	f, err := os.Open(text)
	if err != nil {
		return audit.PublicKey{}, errors.Join(audit.ErrKey, err)
	}
	defer f.Close()
	line, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return audit.PublicKey{}, err
	}
	return audit.ParsePublicKey(strings.TrimSpace(string(line)))
}

func parseReceipt(text string) (envelope.Receipt, error) {
	number, head, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || head == "" {
		return envelope.Receipt{}, usage(fmt.Sprintf("--against %s: neither a file that is there nor a receipt", text), hintOfLog(audit.ErrReceipt))
	}
	return envelope.Receipt{Chain: audit.DefaultChain, Seq: seq, Head: head}, nil
}

// progressBar draws how far the walk has come, ten times a second.
func (p *printer) progressBar() func(done, of int64) {
	const width = 40
	var last time.Time
	return func(done, of int64) {
		if now := time.Now(); now.Sub(last) < 100*time.Millisecond || of <= 0 {
			return
		} else {
			last = now
		}
		full := int(done * width / of)
		fmt.Fprintf(p.err, "\r  [%s%s] %d of %d events", strings.Repeat("#", full), strings.Repeat(".", width-full), done, of)
	}
}

func (p *printer) verified(r *audit.VerifyReport) error {
	var text strings.Builder
	for _, problem := range r.Problems {
		fmt.Fprintf(&text, "event %d: %s: %s\n", problem.Seq, problem.What, render.Line(problem.Detail, 0))
	}
	if r.More > 0 {
		fmt.Fprintf(&text, "and %d more\n", r.More)
	}
	word := "intact"
	if !r.Intact() {
		word = "NOT INTACT"
	}
	fmt.Fprintf(&text, "chain %s: %s: %d events, %d calls, %d open", r.Chain, word, r.Events, r.Calls, r.Open)
	for _, n := range []struct {
		n    int64
		what string
	}{{r.Erased, "erased"}, {r.Checkpoints, "checkpoints"}, {r.Foreign, "of them by another key"}} {
		if n.n > 0 {
			fmt.Fprintf(&text, ", %d %s", n.n, n.what)
		}
	}
	fmt.Fprintf(&text, "; %s\n", r.Tail)
	if r.Head != nil {
		fmt.Fprintf(&text, "head %d:%s\n", r.Head.Seq, r.Head.Head)
	}
	_, err := fmt.Fprint(p.out, text.String())
	return err
}
