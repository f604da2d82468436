package verify

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/parts"
)

// missingFact names a fact of entry 0 that every run records and that is not
// there, or "". Whatever a reader would hold against the claim could be taken out
// otherwise: what the sandbox lacked, which kernel it had, what stood in for the
// real thing.
func missingFact(r manifest.Run) string {
	if name := empty(reflect.ValueOf(r), ""); name != "" {
		return name + " is empty"
	}
	for _, name := range parts.Facts() {
		value, there := r.Driver.Isolation[name]
		if !there || (value == "" && !parts.MayBeEmpty(name)) {
			return "driver.isolation." + name + " is not there"
		}
	}
	for i, s := range parts.Substitutions() {
		if i >= len(r.Substitutions) || r.Substitutions[i] != s {
			return fmt.Sprintf("substitutions[%d] is not %q", i, s)
		}
	}
	return ""
}

// empty names the first member of a value that its schema does not mark as
// optional and that says nothing, or "". Numbers, truth values and what a map
// holds always say something.
func empty(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return empty(v.Elem(), path)
	case reflect.Struct:
		return emptyMember(v, path)
	case reflect.String, reflect.Map:
		if v.Len() == 0 {
			return path
		}
	case reflect.Slice:
		if v.Len() == 0 {
			return path
		}
		for i := range v.Len() {
			if name := empty(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); name != "" {
				return name
			}
		}
	}
	return ""
}

func emptyMember(v reflect.Value, path string) string {
	for i := range v.NumField() {
		name, optional := strings.CutSuffix(v.Type().Field(i).Tag.Get("json"), ",omitempty")
		if optional && v.Field(i).IsZero() {
			continue
		}
		if path != "" {
			name = path + "." + name
		}
		if found := empty(v.Field(i), name); found != "" {
			return found
		}
	}
	return ""
}

// kernelFault says what is wrong with the facts of the kernel, or "". Whether it
// is the host's is told by comparing what both call themselves.
func kernelFault(r manifest.Run) string {
	said := r.Driver.Isolation[parts.FactKernel]
	same := slices.Contains(strings.Fields(r.Driver.Isolation[parts.FactKernelVersion]), r.Host.Kernel)
	switch {
	case said == parts.KernelNotMeasured:
	case said == parts.KernelShared && same, said == parts.KernelOwn && !same:
	default:
		return fmt.Sprintf("driver.isolation.kernel is %.40q: inside it calls itself %.120q, and the host's is %.60q", said, r.Driver.Isolation[parts.FactKernelVersion], r.Host.Kernel)
	}
	return ""
}
