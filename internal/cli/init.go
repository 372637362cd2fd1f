package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/draft"
)

// initCmd is "callcell init".
type initCmd struct {
	hereFlag
	Name       string             `help:"Name of the profile; -read and -write come behind it." default:"work" placeholder:"NAME"`
	Read       []string           `help:"Host that it reads from." placeholder:"HOST[:PORT,PORT][/PROTOCOL]" sep:"none"`
	Write      []string           `help:"Host that it writes to, in a profile apart." placeholder:"HOST[:PORT,PORT][/PROTOCOL]" sep:"none"`
	Credential []string           `help:"Secret that the host's edge adds to requests: gh=env:GH_TOKEN@api.github.com/repos/." placeholder:"NAME=SOURCE@HOST/PATH" sep:"none"`
	Fetch      bool               `help:"The fetch tool may reach every public host."`
	Env        []string           `help:"Variable that a call may set." placeholder:"NAME" sep:"none"`
	Trust      envelope.Trust     `help:"Who writes the code: model, thirdparty, hostile, or reviewed." default:"model" placeholder:"WHO"`
	Image      string             `help:"Root that the cell sees: host, oci:REF or build:NAME." placeholder:"IMAGE"`
	Memory     envelope.Size      `help:"Memory of the whole cell." placeholder:"SIZE"`
	Timeout    *envelope.Duration `help:"Wall time." placeholder:"TIME"`
	Ask        bool               `help:"Ask for all of it, also where standard input is no terminal."`
	FromRow    string             `help:"Draft it from what this call had and was denied." placeholder:"ID"`
	Accept     bool               `help:"With --from-row: put what is proposed into force, too."`
	Output     string             `short:"o" help:"File to write; one that is there is not overwritten. Without it: standard output." type:"path" placeholder:"FILE"`
	JSON       bool               `name:"json" help:"Print what was drafted, and what explain says of it, as JSON; the file is in it where -o names none."`
}

// Help is the long text of "callcell init --help".
func (*initCmd) Help() string {
	return `Writes profiles for you to read, change and keep: as narrow as what you say, each value below a
comment that says why it is there, what reads apart from what writes. Without a flag, and on a
terminal, it asks. Each is checked by explain before you see it.

  callcell init
  callcell init --name docs --read docs.example.com --timeout 1m -o callcell.yaml
  callcell init --credential gh=env:GH_TOKEN@api.github.com/repos/
  callcell init --from-row 01a229ca -o again.yaml

From a row, what the call was denied is proposed in comments with the reason, and not in force:
its program chose the names of hosts. --accept puts it into force.`
}

// Run drafts the profiles, checks them, and writes them.
func (c *initCmd) Run(a *app) error {
	if c.Accept && c.FromRow == "" {
		return usage("--accept goes with --from-row", "callcell init --from-row ID --accept")
	}
	if c.Here && c.FromRow == "" {
		return usage("--here goes with --from-row", "callcell init --from-row ID --here")
	}
	made, err := c.draft(a)
	if err != nil {
		return err
	}
	if made.Text, err = draft.File(made.header, made.drafts); err != nil {
		return usage(flat(err), hintOf(err))
	}
	if err := c.check(a, made); err != nil {
		return err
	}
	if c.Output != "" {
		if err := writeNew(c.Output, made.Text); err != nil {
			return err
		}
		made.File, made.Text = c.Output, ""
	}
	switch {
	case c.JSON:
		return a.json(made, a.outTTY)
	case c.Output == "":
		_, err = io.WriteString(a.out, made.Text)
		return err
	}
	a.say("written: " + c.Output + "; try callcell --config " + c.Output + " explain --profile " + made.drafts[0].Name + " --lang python FILE")
	return nil
}

// drafted is what was drafted, as JSON has it.
type drafted struct {
	File      string           `json:"file,omitempty"` // that was written
	Text      string           `json:"text,omitempty"` // of the file, where none was
	Profiles  []draftedProfile `json:"profiles"`
	Proposals []proposal       `json:"proposals,omitempty"` // from the row
	Daemon    string           `json:"daemon,omitempty"`    // that would make the calls: nothing was explained

	header []string
	drafts []draft.Profile
}

// draftedProfile is one of them, with what explain says of a python program.
type draftedProfile struct {
	Name     string             `json:"name"`
	Envelope *envelope.Envelope `json:"envelope"`
	Level    envelope.Level     `json:"level,omitzero"`
	Refusal  *envelope.Refusal  `json:"refusal,omitempty"`
	Warnings []string           `json:"warnings,omitempty"`
}

// proposal is what would widen a profile.
type proposal struct {
	Field   string `json:"field"`
	Value   string `json:"value"`
	Why     string `json:"why"`
	InForce bool   `json:"inForce"`
}

// writeNew writes a file that is not there yet.
func writeNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usage(fmt.Sprintf("-o %s: %v", name, bare(err)), "nothing is overwritten: give another name")
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

func (c *initCmd) draft(a *app) (*drafted, error) {
	if c.FromRow != "" {
		return c.fromRow(a)
	}
	if c.Ask || isTerminal(a.stdin) && !c.said() {
		if err := c.interview(a); err != nil {
			return nil, err
		}
	}
	answers, err := c.answers()
	if err != nil {
		return nil, err
	}
	return &drafted{
		drafts: answers.Profiles(),
		header: []string{"Drafted by callcell init from your answers. What is not here is the default: small, and closed."},
	}, nil
}

// said reports whether the flags say anything that is asked for.
func (c *initCmd) said() bool {
	return len(c.Read)+len(c.Write)+len(c.Credential)+len(c.Env) > 0 || c.Fetch || c.Memory > 0 || c.Timeout != nil
}

func (c *initCmd) answers() (*draft.Answers, error) {
	answers := &draft.Answers{Name: c.Name, Trust: c.Trust, Image: c.Image, Fetch: c.Fetch, Environment: c.Env, Memory: c.Memory}
	if c.Timeout != nil {
		answers.Wall = *c.Timeout
	}
	var err error
	if answers.Read, err = allowed("--read", c.Read); err != nil {
		return nil, err
	}
	if answers.Write, err = allowed("--write", c.Write); err != nil {
		return nil, err
	}
	for _, text := range c.Credential {
		one, err := draft.ParseCredential(text)
		if err != nil {
			return nil, usage("--credential: "+err.Error(), "gh=env:GH_TOKEN@api.github.com/repos/")
		}
		answers.Credentials = append(answers.Credentials, one)
	}
	return answers, nil
}

// fromRow drafts a profile from a row of the log.
func (c *initCmd) fromRow(a *app) (*drafted, error) {
	var p draft.Profile
	row, err := a.oneRow(c.hereFlag, c.FromRow)
	if err == nil {
		p, err = draft.OfRow(c.Name, &row)
	}
	if errors.Is(err, draft.ErrRow) {
		return nil, usage(flat(err), "calls that were refused before their envelope was known have none; see callcell audit show "+c.FromRow)
	}
	if err != nil {
		return nil, err
	}
	proposed := p.Proposals
	if c.Accept {
		p.Accept()
	}
	made := &drafted{drafts: []draft.Profile{p}, header: []string{"Drafted by callcell init from the row of a call. Read it before you use it."}}
	for _, one := range proposed {
		left := slices.ContainsFunc(p.Proposals, func(o draft.Proposal) bool { return o.Field == one.Field && o.Value == one.Value })
		made.Proposals = append(made.Proposals, proposal{one.Field, one.Value, one.Why, !left})
	}
	if !c.JSON {
		a.proposals(made.Proposals)
	}
	return made, nil
}

// proposals says what was proposed.
func (p *printer) proposals(list []proposal) {
	for _, one := range list {
		mark := "proposed, not in force"
		if one.InForce {
			mark = "WIDER than the call was"
		}
		p.say(fmt.Sprintf("%s: %s: %s", mark, one.Field, one.Value))
		p.hint(one.Why)
	}
}

// interview asks what the code may touch. An empty answer keeps what the flag
// says, or nothing.
func (c *initCmd) interview(a *app) error {
	in := bufio.NewReader(io.LimitReader(a.stdin, 64<<10))
	ask := func(question string) (string, error) {
		fmt.Fprint(a.err, question+" ")
		line, err := in.ReadString('\n')
		if err != nil && line == "" {
			return "", usage("the questions were not answered to the end", "give the answers as flags: callcell init --help")
		}
		return strings.TrimSpace(line), nil
	}
	for _, q := range []struct {
		text string
		take func(string) error
	}{
		{"What do you call the work? [" + c.Name + "]", func(s string) error { c.Name = s; return nil }},
		{"Which hosts may it read from? (HOST[:PORT][/PROTOCOL], blanks between) [none: no network]", func(s string) error { c.Read = strings.Fields(s); return nil }},
		{"Which hosts may it write to, in a profile of its own? [none]", func(s string) error { c.Write = strings.Fields(s); return nil }},
		{"Which secret may it use without having it? (NAME=SOURCE@HOST/PATH) [none]", func(s string) error { c.Credential = []string{s}; return nil }},
		{"May documents be fetched from every public host? (yes) [no]", func(s string) error { c.Fetch = s == "yes" || s == "y"; return nil }},
		{"How much memory? [256Mi]", func(s string) error { return c.Memory.UnmarshalText([]byte(s)) }},
		{"How long may one run take? [30s]", func(s string) error { c.Timeout = new(envelope.Duration); return c.Timeout.UnmarshalText([]byte(s)) }},
	} {
		answer, err := ask(q.text)
		if err == nil && answer != "" {
			err = q.take(answer)
		}
		if err != nil {
			return misread(err)
		}
	}
	return nil
}

// misread is an answer that is none.
func misread(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return err
	}
	return usage(flat(err), hintOf(err))
}

// check reads the draft as an operator's file and explains each of its
// profiles on this host.
func (c *initCmd) check(a *app, made *drafted) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	host, err := config.ThisHost()
	if err != nil {
		return err
	}
	read, err := config.Read("draft", []byte(made.Text), host)
	if err != nil {
		return usage(flat(err), hintOf(err))
	}
	for i := range made.drafts {
		p := &made.drafts[i]
		made.Profiles = append(made.Profiles, draftedProfile{Name: p.Name, Envelope: &p.Envelope})
	}
	if cfg.Daemon.Named() {
		made.Daemon = cfg.Daemon.Address
	} else if err := explainAll(a, cfg, read.Profiles, made.Profiles); err != nil {
		return err
	}
	if !c.JSON {
		a.verdicts(made)
	}
	return nil
}

// explainAll explains a python program in each of the profiles, which are beside
// those of the configuration.
func explainAll(a *app, cfg *config.Config, more map[string]envelope.Envelope, list []draftedProfile) error {
	trial := *cfg
	trial.Profiles = maps.Clone(cfg.Profiles)
	maps.Copy(trial.Profiles, more)
	house, err := assembly.OpenUnrecorded(assembly.Start(&trial), assembly.Options{Config: &trial, Watch: &watch{p: &a.printer}})
	if err != nil {
		return err
	}
	for i := range list {
		p := &list[i]
		call := &envelope.Call{Profile: p.Name, Script: &envelope.Script{Lang: "python", Code: "pass"}}
		e := house.Broker.Explain(a.ctx, localCaller(), call)
		p.Level, p.Refusal, p.Warnings = e.Level, e.Refusal, slices.Sorted(slices.Values(e.Warnings))
	}
	return house.Close(a.ctx)
}

// verdicts says what explain says of what was drafted.
func (p *printer) verdicts(made *drafted) {
	if made.Daemon != "" {
		p.say("calls are made by the daemon at " + made.Daemon + ": who runs it takes the profiles into its configuration, and a key has them by callcell key create --profile")
		return
	}
	for _, one := range made.Profiles {
		if one.Refusal != nil {
			p.say(fmt.Sprintf("%s: a python program would be refused here: %s", one.Name, one.Refusal.Error()))
			p.hint(one.Refusal.Hint)
			continue
		}
		p.say(fmt.Sprintf("%s: a python program would run at %s", one.Name, one.Level))
		for _, w := range one.Warnings {
			fmt.Fprintln(p.err, "  warning: "+w)
		}
	}
}
