package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
)

// document makes the OpenAPI document of the table of routes and of the types
// that are decoded and encoded.
func (a *API) document() ([]byte, error) {
	types := newTypes()
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "callcell", Version: a.Version,
			Description: "One call, one cell: run an AI agent's tool call in a sandbox that is built for it and destroyed after it. What comes out is data of an untrusted program."},
		Paths: map[string]*huma.PathItem{},
		Components: &huma.Components{Schemas: types, SecuritySchemes: map[string]*huma.SecurityScheme{
			"key": {Type: "http", Scheme: "bearer", Description: "A key of this host: cck_..."},
		}},
	}
	fault := types.Schema(reflect.TypeFor[Problem](), true, "Problem")
	for _, e := range endpoints() {
		item := doc.Paths[e.path]
		if item == nil {
			item = &huma.PathItem{}
			doc.Paths[e.path] = item
		}
		*operationOf(item, e.method) = e.operation(types, fault)
	}
	describe(types)
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("httpapi: the document: %w", err)
	}
	return text, nil
}

// newTypes are the types of the document: none yet, and how each that is written
// as text is told of.
func newTypes() huma.Registry {
	types := huma.NewMapRegistry(schemas, schemaName)
	for from, to := range aliases() {
		types.RegisterTypeAlias(from, to)
	}
	return types
}

// schemaName names a type of another package after that too: two have the same
// name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch pkg := path.Base(t.PkgPath()); pkg {
	case "audit", "gateway", "assembly", "health", "image":
		return strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	return name
}

// operationOf is the place of a method's operation.
func operationOf(item *huma.PathItem, method string) **huma.Operation {
	switch method {
	case http.MethodPost:
		return &item.Post
	case http.MethodPatch:
		return &item.Patch
	case http.MethodHead:
		return &item.Head
	case http.MethodDelete:
		return &item.Delete
	}
	return &item.Get
}

// operation is what the document says of an endpoint.
func (e *endpoint) operation(types huma.Registry, fault *huma.Schema) *huma.Operation {
	op := &huma.Operation{OperationID: e.id, Summary: e.summary, Responses: map[string]*huma.Response{
		"default": {Description: "A problem; its code is one of: " + strings.Join(words(), ", "),
			Content: map[string]*huma.MediaType{"application/problem+json": {Schema: fault}}},
	}}
	if len(e.roles) > 0 {
		op.Security = []map[string][]string{{"key": {}}}
		op.Description = "For keys of role " + strings.Join(roleWords(e.roles), ", ") + "."
		op.Extensions = map[string]any{"x-roles": roleWords(e.roles)}
	}
	e.parameters(op)
	op.RequestBody = e.requestBody(types)
	status := e.status
	if status == 0 {
		status = http.StatusOK
	}
	ok := &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{}}
	if e.out != nil {
		ok.Content["application/json"] = &huma.MediaType{Schema: types.Schema(reflect.TypeOf(e.out), true, e.id)}
	}
	if e.file != "" {
		ok.Content[e.file] = &huma.MediaType{Schema: bytesSchema()}
	}
	if e.streams {
		ok.Content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString,
			Description: "Of a call: begun, running, stdout, stderr, cut, result. Of an image: begun, running, progress, words, done. Each with an id to go on from"}}
	}
	op.Responses[strconv.Itoa(status)] = ok
	if e.id == "runCall" {
		op.Responses["202"] = &huma.Response{Description: "It has its turn; Location says where it is read", Content: map[string]*huma.MediaType{
			"application/json": {Schema: types.Schema(reflect.TypeFor[CallState](), true, "CallState")}}}
	}
	return op
}

// requestBody is what the document says of the body; nil where there is none.
func (e *endpoint) requestBody(types huma.Registry) *huma.RequestBody {
	if e.in == nil && !e.upload {
		return nil
	}
	body := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	if e.upload {
		body.Content[octets] = &huma.MediaType{Schema: bytesSchema()}
		return body
	}
	in := types.Schema(reflect.TypeOf(e.in), true, e.id)
	body.Content["application/json"] = &huma.MediaType{Schema: in}
	if e.forms {
		body.Content["multipart/form-data"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject, Required: []string{callPart},
			Description: "The call, and its inputs as files: the name of a part is the name of its input. One that the call names already, without bytes, gets them.",
			Properties:  map[string]*huma.Schema{callPart: in}, AdditionalProperties: bytesSchema()}}
	}
	return body
}

func bytesSchema() *huma.Schema { return &huma.Schema{Type: huma.TypeString, Format: "binary"} }

func (e *endpoint) parameters(op *huma.Operation) {
	text := &huma.Schema{Type: huma.TypeString}
	for _, part := range strings.Split(e.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			op.Parameters = append(op.Parameters, &huma.Param{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: text})
		}
	}
	for in, list := range map[string][]parameter{"query": e.query} {
		for _, p := range list {
			op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: in, Description: p.doc, Schema: text})
		}
	}
	for _, p := range e.headers {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: "header", Description: p.doc, Schema: text})
	}
}

func words() (list []string) {
	for _, c := range Codes() {
		list = append(list, c.Word)
	}
	return list
}

func roleWords(roles []gateway.Role) (list []string) {
	for _, r := range roles {
		list = append(list, r.String())
	}
	return list
}

// aliases are the types that are written as text, and what stands for each in
// the document.
func aliases() map[reflect.Type]reflect.Type {
	return map[reflect.Type]reflect.Type{
		reflect.TypeFor[envelope.Size]():     reflect.TypeFor[sizeText](),
		reflect.TypeFor[envelope.Duration](): reflect.TypeFor[durationText](),
		reflect.TypeFor[envelope.Count]():    reflect.TypeFor[countText](),
		reflect.TypeFor[envelope.CPU]():      reflect.TypeFor[cpuText](),
		reflect.TypeFor[envelope.Data]():     reflect.TypeFor[dataText](),
		reflect.TypeFor[envelope.Level]():    reflect.TypeFor[levelText](),
		reflect.TypeFor[envelope.Trust]():    reflect.TypeFor[trustText](),
		reflect.TypeFor[envelope.Outcome]():  reflect.TypeFor[outcomeText](),
		reflect.TypeFor[envelope.Reason]():   reflect.TypeFor[reasonText](),
		reflect.TypeFor[envelope.Verdict]():  reflect.TypeFor[verdictText](),
		// Of a byte each, so that a list of them is taken for bytes.
		reflect.TypeFor[[]envelope.Need]():     reflect.TypeFor[needTexts](),
		reflect.TypeFor[envelope.ChangeKind](): reflect.TypeFor[changeText](),
		reflect.TypeFor[gateway.Role]():        reflect.TypeFor[roleText](),
		reflect.TypeFor[gateway.Month]():       reflect.TypeFor[monthText](),
		reflect.TypeFor[json.RawMessage]():     reflect.TypeFor[anyJSON](),
	}
}

type (
	sizeText     struct{}
	durationText struct{}
	countText    struct{}
	cpuText      struct{}
	dataText     struct{}
	levelText    struct{}
	trustText    struct{}
	outcomeText  struct{}
	reasonText   struct{}
	verdictText  struct{}
	needTexts    struct{}
	changeText   struct{}
	roleText     struct{}
	monthText    struct{}
	anyJSON      struct{}
)

func textOf(doc, pattern string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: doc, Pattern: pattern}
}

// set is a closed set of words, as the vocabulary has it.
func set(name string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: meanings(name)}
	for _, c := range envelope.Codes() {
		if c.Set == name {
			s.Enum = append(s.Enum, c.Word)
		}
	}
	return s
}

func numberOrText(doc string, kind string) *huma.Schema {
	return &huma.Schema{Description: doc, OneOf: []*huma.Schema{{Type: kind}, {Type: huma.TypeString}}}
}

// Schema implements huma.SchemaProvider, for each of them.
func (sizeText) Schema(huma.Registry) *huma.Schema {
	return textOf("Bytes with their unit: 512B, 64Ki, 1Gi", `^[0-9]+(B|Ki|Mi|Gi|Ti)$`)
}
func (durationText) Schema(huma.Registry) *huma.Schema {
	return textOf("A time with its unit: 30s, 10m, 1h30m", "")
}
func (countText) Schema(huma.Registry) *huma.Schema {
	return numberOrText("A number, or text with k or M: 200, 200k", huma.TypeInteger)
}
func (cpuText) Schema(huma.Registry) *huma.Schema {
	return numberOrText("A number of CPUs: 1, 0.5", huma.TypeNumber)
}
func (dataText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, ContentEncoding: "base64", Description: "Bytes, in standard base64 with padding"}
}
func (levelText) Schema(huma.Registry) *huma.Schema   { return set("level") }
func (trustText) Schema(huma.Registry) *huma.Schema   { return set("trust") }
func (outcomeText) Schema(huma.Registry) *huma.Schema { return set("outcome") }
func (reasonText) Schema(huma.Registry) *huma.Schema  { return set("refusal") }
func (verdictText) Schema(huma.Registry) *huma.Schema { return set("verdict") }
func (needTexts) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: set("need")}
}
func (changeText) Schema(huma.Registry) *huma.Schema { return set("change") }
func (roleText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: []any{"call", "read", "admin"}}
}
func (monthText) Schema(huma.Registry) *huma.Schema {
	return textOf("A calendar month in UTC: 2026-11", `^[0-9]{4}-[0-9]{2}$`)
}
func (anyJSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }
