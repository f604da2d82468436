package gvisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// maxMessage bounds a runtime message that goes into an error.
const maxMessage = 2 << 10

// runtimeError turns the runtime's JSON log, a sequence of objects with a
// member "msg", into one error of one line; nil when it is empty.
func runtimeError(log []byte) error {
	var msgs []string
	dec := json.NewDecoder(bytes.NewReader(log))
	for {
		var entry struct {
			Msg string `json:"msg"`
		}
		if err := dec.Decode(&entry); err != nil {
			break
		}
		if entry.Msg != "" {
			msgs = append(msgs, entry.Msg)
		}
	}
	text := strings.Join(msgs, "; ")
	if text == "" {
		text = string(log)
	}
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return nil
	}
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	return errors.New(strings.ToValidUTF8(text, "?"))
}
