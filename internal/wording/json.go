package wording

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// JSON rewords the error of decoding JSON, written by a person or a model, into a struct:
// it names the member and the kind of value that it must have. Other errors are returned
// as they are.
func JSON(err error) error {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	if mismatch.Field == "" {
		return fmt.Errorf("expected %s, not %s", kindText(mismatch.Type), valueText(mismatch.Value))
	}
	return fmt.Errorf("`%s` must be %s, not %s", mismatch.Field, kindText(mismatch.Type), valueText(mismatch.Value))
}

// Missing returns the error for a required member that is missing.
func Missing(member string) error { return fmt.Errorf("`%s` is missing", member) }

// kindText returns the JSON form of a Go type, in words.
func kindText(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return kindText(t.Elem())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number that is not negative"
	}
	return "a whole number"
}

// valueText rewords a value as encoding/json describes it: "number 1.5",
// "array".
func valueText(value string) string {
	switch value {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + value // a string, a number, a number 1.5
}
