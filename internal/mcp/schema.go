package mcp

import (
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/callcell/callcell/envelope"
)

// schemaOf returns the schema of a type as a client sees it. A null is none of
// our values, and envelopes' words are closed sets.
func schemaOf[T any]() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: wordSchemas()})
	if err != nil {
		return nil, err
	}
	withoutNull(s)
	return s, nil
}

func wordSchemas() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[envelope.Level]():    words(append([]envelope.Level{envelope.LevelAuto}, envelope.Levels()...)),
		reflect.TypeFor[envelope.Trust]():    words([]envelope.Trust{envelope.TrustModel, envelope.TrustThirdParty, envelope.TrustHostile}),
		reflect.TypeFor[envelope.Need]():     words(envelope.DeclarableNeeds()),
		reflect.TypeFor[envelope.Size]():     {Type: "string", Description: "a size: 64Ki, 256Mi"},
		reflect.TypeFor[envelope.Duration](): {Type: "string", Description: "a time: 500ms, 30s"},
		reflect.TypeFor[envelope.CPU]():      {Type: "number", Description: "CPUs: 0.5"},
		reflect.TypeFor[envelope.Count]():    {Type: "integer"},
		reflect.TypeFor[envelope.Data]():     {Type: "string"},
	}
}

func words[T interface{ String() string }](values []T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, v.String())
	}
	return s
}

// withoutNull takes null out of what a schema admits, all the way down.
func withoutNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.Index(s.Types, "null"); i >= 0 {
		if s.Types = slices.Delete(slices.Clone(s.Types), i, i+1); len(s.Types) == 1 {
			s.Type, s.Types = s.Types[0], nil
		}
	}
	for _, below := range s.Properties {
		withoutNull(below)
	}
	withoutNull(s.Items)
	withoutNull(s.AdditionalProperties)
}
