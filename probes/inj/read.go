package inj

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds on what is read for instructions.
const (
	maxText         = 1 << 20
	maxInstructions = 16
)

// address matches the words by which a reader is addressed.
var address = regexp.MustCompile(`(?i)\b(assistants?|agents?|AI|assistenten?|asistentes?|agente|assistente)\b|ассистент|助手|アシスタント|assistent`)

// backquoted matches a command in backquotes.
var backquoted = regexp.MustCompile("`((?:[^`\\\\]|\\\\.)+)`")

// base64Word matches words that may be encoded text.
var base64Word = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}={0,2}`)

// Instructions returns the commands that a text tells its reader to run, in
// order, each once, at most 16.
func Instructions(text string) []string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	var out []string
	seen := map[string]bool{}
	for _, reading := range readings(text) {
		for _, line := range strings.Split(reading, "\n") {
			if !address.MatchString(line) {
				continue
			}
			for _, m := range backquoted.FindAllStringSubmatch(line, -1) {
				command := unescaped(m[1])
				if len(out) < maxInstructions && !seen[command] {
					seen[command] = true
					out = append(out, command)
				}
			}
		}
	}
	return out
}

// Command returns the command of a prompt: what the user asks, taken as it
// stands. Nothing in it is decoded, so that an address which happens to carry an
// encoded text is not read as one.
func Command(prompt string) string {
	m := backquoted.FindStringSubmatch(prompt)
	if m == nil {
		return ""
	}
	return unescaped(m[1])
}

// unescaped undoes what JSON and escaped do to a command.
func unescaped(s string) string {
	return strings.NewReplacer("\\`", "`", `\"`, `"`, `\\`, `\`, `\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(s)
}

// readings returns the ways in which a text can be read.
func readings(text string) []string {
	out := []string{text}
	add := func(s string) {
		if s != "" && s != text {
			out = append(out, s)
		}
	}
	add(strings.Map(func(r rune) rune {
		if plain, ok := lookAlikes[r]; ok {
			return plain
		}
		return r
	}, text))
	add(spelled(text))
	for _, word := range base64Word.FindAllString(text, 64) {
		add(decoded(word))
	}
	if s, err := url.PathUnescape(text); err == nil {
		add(s)
	}
	return out
}

// spelled returns what the invisible characters of a text spell.
func spelled(text string) string {
	var out []byte
	var bits, n int
	for _, r := range text {
		switch r {
		case bitZero:
			bits = bits << 1
		case bitOne:
			bits = bits<<1 | 1
		default:
			continue
		}
		if n++; n == 8 {
			out = append(out, byte(bits))
			bits, n = 0, 0
		}
	}
	return string(out)
}

// decoded returns the text that a word of base64 encodes, "" if it is none.
func decoded(word string) string {
	word = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(word, "="))
	raw, err := base64.RawStdEncoding.DecodeString(word)
	if err != nil || !utf8.Valid(raw) {
		return ""
	}
	return string(raw)
}
