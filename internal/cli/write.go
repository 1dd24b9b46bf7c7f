package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

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
		return fmt.Errorf("output %q: must be json or yaml", form)
	}
	if err != nil {
		return fmt.Errorf("printing as %s: %w", form, err)
	}
	_, err = w.Write(b)
	return err
}
