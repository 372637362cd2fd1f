package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/trace"
)

// auditExportCmd is "callcell audit export".
type auditExportCmd struct {
	rowFlags
	After  string `help:"Go on from here: the last id of the export before." placeholder:"ID"`
	Format string `help:"rows (JSON, as audit show has them), otlp (OpenTelemetry logs as JSON) or events (the chain itself)." enum:"rows,otlp,events" default:"rows"`
	JSON   bool   `name:"json" help:"Print one JSON object a line; it is that in any case."`
}

// Help is the long text of "callcell audit export --help".
func (*auditExportCmd) Help() string {
	return `One line for each call, oldest first, whatever number there are:

  callcell audit export --since 24h > calls.jsonl
  callcell audit export --format otlp --after $LAST | otel-cli-or-collector
  callcell audit export --format events > chain.jsonl

A line of otlp is what the OpenTelemetry collector's otlpjsonfile receiver reads. events takes no
other flags: it is the whole chain, each event with what its hash is made of.`
}

// Run prints rows or events.
func (c *auditExportCmd) Run(a *app) error {
	f := c.filter()
	f.Oldest, f.After, f.Limit = true, c.After, audit.MaxLimit
	if c.Format == "events" {
		if c.After != "" || c.filter() != (audit.Filter{}) {
			return usage("--format events takes no filter", "a chain is whole or it is none")
		}
		return withLog(a, func(log *audit.Log) error { return a.exportEvents(log) })
	}
	return withLog(a, func(log *audit.Log) error {
		for {
			rows, err := log.List(a.ctx, f)
			if err != nil || len(rows) == 0 {
				return err
			}
			for i := range rows {
				var v any = &rows[i]
				if c.Format == "otlp" {
					v = otlpOf(&rows[i])
				}
				if err := a.json(v, false); err != nil {
					return err
				}
			}
			f.After = rows[len(rows)-1].ID
		}
	})
}

// exportPage is how many events are held at once.
const exportPage = 256

// exportEvents prints the chain. The bodies' bytes are as they are hashed: in
// them nothing is escaped beyond what they have.
func (a *app) exportEvents(log *audit.Log) error {
	for after := int64(0); ; {
		list, faults, err := log.Events(a.ctx, after, exportPage)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if fault := faults[list[i].Seq]; fault != nil {
				return fmt.Errorf("%w: event %d: %w", audit.ErrCorrupt, list[i].Seq, fault)
			}
			var line bytes.Buffer
			e := json.NewEncoder(&line)
			e.SetEscapeHTML(false)
			if err := e.Encode(&list[i]); err != nil {
				return err
			}
			if _, err := a.out.Write(line.Bytes()); err != nil {
				return err
			}
		}
		after = list[len(list)-1].Seq
	}
}

// The parts of an OTLP log that are used here.
type (
	otlpLogs struct {
		ResourceLogs []otlpResource `json:"resourceLogs"`
	}
	otlpResource struct {
		Resource  otlpAttributes `json:"resource"`
		ScopeLogs []otlpScope    `json:"scopeLogs"`
	}
	otlpAttributes struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScope struct {
		Scope      map[string]string `json:"scope"`
		LogRecords []otlpRecord      `json:"logRecords"`
	}
	otlpRecord struct {
		Time     string    `json:"timeUnixNano"`
		Observed string    `json:"observedTimeUnixNano"`
		Severity int       `json:"severityNumber"`
		Text     string    `json:"severityText"`
		Body     otlpValue `json:"body"`
		Trace    string    `json:"traceId,omitempty"` // that telemetry sends the call as
		otlpAttributes
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String string `json:"stringValue"`
	}
)

// otlpOf is a row as one log record: INFO where it completed, WARN where it was
// refused or met a ceiling, ERROR where our own machinery failed it.
func otlpOf(r *audit.Row) *otlpLogs {
	rec := otlpRecord{Severity: 13, Text: "WARN", Body: otlpValue{rowLine(r)}}
	switch {
	case r.Outcome == envelope.OutcomeCompleted || r.Open():
		rec.Severity, rec.Text = 9, "INFO"
	case r.Outcome == envelope.OutcomeBroken, r.Outcome == envelope.OutcomeLost, r.Damaged != "":
		rec.Severity, rec.Text = 17, "ERROR"
	}
	at := r.Ended
	if at.IsZero() {
		at = r.Started
	}
	rec.Time, rec.Observed, rec.Trace = otlpTime(at), otlpTime(at), traceOf(r)
	add := func(key, value string) {
		if value != "" {
			rec.Attributes = append(rec.Attributes, otlpAttribute{"callcell." + key, otlpValue{value}})
		}
	}
	add("call.id", r.ID)
	add("task", r.Task)
	add("caller", r.Caller)
	add("team", r.Team)
	add("tool", r.Tool)
	if r.Level.Valid() {
		add("level", r.Level.String())
	}
	if r.Outcome.Valid() {
		add("outcome", r.Outcome.String())
	}
	if r.Reason.Valid() {
		add("refusal", r.Reason.String())
	}
	if r.Receipt != nil {
		add("audit.seq", strconv.FormatInt(r.Receipt.Seq, 10))
		add("audit.head", r.Receipt.Head)
	}
	service := otlpAttributes{[]otlpAttribute{{"service.name", otlpValue{"callcell"}}}}
	return &otlpLogs{[]otlpResource{{service, []otlpScope{{map[string]string{"name": "callcell.audit"}, []otlpRecord{rec}}}}}}
}

// traceOf is the trace of a call: its caller's, or its own.
func traceOf(r *audit.Row) string {
	switch {
	case r.Intent != nil && r.Intent.Trace != "":
		return r.Intent.Trace
	case r.Refused != nil && r.Refused.Trace != "":
		return r.Refused.Trace
	}
	return trace.OfCall(r.ID).String()
}

func otlpTime(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}
