package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// ErrOutput says that there is no such form of output.
var ErrOutput = errors.New("no such output")

// WriteAs prints v as json or yaml.
func WriteAs(w io.Writer, form string, v any) error {
	var b []byte
	var err error
	switch form {
	case "json":
		b, err = json.MarshalIndent(v, "", "  ")
		b = append(b, '\n')
	case "yaml":
		b, err = yaml.Marshal(v)
	default:
		return fmt.Errorf("%w: %q", ErrOutput, form)
	}
	if err != nil {
		return fmt.Errorf("printing as %s: %w", form, err)
	}
	_, err = w.Write(b)
	return err
}
