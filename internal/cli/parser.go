package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
)

// only returns what makes a grammar of the flags of all commands one of a
// single command, or nil where there is none of the name.
func (g *grammar) only(command string) kong.Option {
	whole := reflect.ValueOf(g).Elem()
	for i := range whole.NumField() {
		field := whole.Type().Field(i)
		name := cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name))
		if _, ok := field.Tag.Lookup("cmd"); ok && name == command {
			return kong.DynamicCommand(name, field.Tag.Get("help"), "", whole.Field(i).Addr().Interface())
		}
	}
	return nil
}

// asksHelp reports whether a word asks for help, or looks as if it did.
func asksHelp(args []string) bool {
	return slices.ContainsFunc(args, func(word string) bool { return word == "-h" || strings.HasPrefix(word, "--h") })
}

// parser returns a parser for a grammar, a pointer to a struct.
func (a *app) parser(grammar any, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(grammar, append(more,
		kong.Name("callcell"),
		kong.Description(description),
		kong.Writers(a.out, a.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ValueFormatter(withDefault),
		kong.KindMapper(reflect.String, kong.MapperFunc(asWritten)),
		kong.NamedMapper("path", kong.MapperFunc(pathAsWritten)),
		kong.Exit(func(int) { panic(helpShown{}) }),
		kong.Bind(a),
	)...)
}

// withDefault is the help of a value, with its default where the flag shows a
// placeholder instead.
func withDefault(v *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(v)
	if v.HasDefault && v.Default != "" && v.Flag != nil && v.Flag.PlaceHolder != "" && !strings.Contains(text, "Default") {
		text += " Default: " + v.Default + "."
	}
	return text
}

// asWritten takes a word as it was written: kong's own way goes through JSON,
// in which bytes that are not UTF-8, as names of files may have, become others.
func asWritten(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	text, ok := token.Value.(string)
	if !ok {
		text = fmt.Sprint(token.Value)
	}
	target.SetString(text)
	return nil
}

// pathAsWritten is asWritten for the path of a file, which becomes absolute.
func pathAsWritten(ctx *kong.DecodeContext, target reflect.Value) error {
	if target.Kind() == reflect.Pointer {
		if target.IsNil() {
			target.Set(reflect.New(target.Type().Elem()))
		}
		target = target.Elem()
	}
	if err := asWritten(ctx, target); err != nil {
		return err
	}
	if path := target.String(); path != "" && path != "-" {
		target.SetString(kong.ExpandPath(path))
	}
	return nil
}

// misspelt is a command line that the parser does not take.
func misspelt(err error) error {
	var fault *kong.ParseError
	var unwritten *fs.PathError // help that could not be printed
	if !errors.As(err, &fault) || errors.As(err, &unwritten) {
		return err
	}
	help := "callcell --help"
	if node := fault.Context.Selected(); node != nil {
		help = node.FullPath() + " --help"
		if takesCommand(fault.Context) {
			help += "; a command and its own flags come after --"
		}
	}
	if hint := hintOfValue(err); hint != "" {
		help = hint
	}
	return usage(err.Error(), help)
}

// hintOfValue is the hint of a value that cannot be read, or "".
func hintOfValue(err error) string {
	var value *envelope.ValueError
	var field *gateway.FieldError
	switch {
	case errors.As(err, &value):
		return value.Hint
	case errors.As(err, &field):
		return field.Hint
	}
	return ""
}
