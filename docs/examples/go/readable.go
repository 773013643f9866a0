package main

import (
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Refused is a message that must not be applied, and where in it.
type Refused struct {
	FieldPath string
	Reason    string
}

func (r *Refused) Error() string { return r.Reason }

func refuse(path, format string, arguments ...any) error {
	return &Refused{FieldPath: path, Reason: fmt.Sprintf(format, arguments...)}
}

// reasons has every reason to deny. One that is not known here refuses the update that has it.
var reasons = []string{
	"no_route", "unauthorized", "cannot_tell", "tls_required", "protocol_mismatch", "server_invalid",
	"routes_invalid", "route_invalid", "proxy_unsupported", "not_delegated", "port_undeclared",
	"policy_pending", "policy_expired", "rate_limited", "rate_limit_invalid", "revoked",
	"target_malformed", "target_dot_segment", "target_empty_segment", "target_encoded_slash",
	"target_backslash", "target_control", "target_bad_encoding", "target_path_parameter",
	"target_non_ascii", "target_not_canonical",
	"target_less_than", "target_greater_than", "target_grave_accent", "host_duplicate", "host_mismatch", "host_invalid",
	"host_missing", "header_obs_text", "header_outer_blanks",
}

// absent has the messages and oneofs that need not be there.
var absent = []protoreflect.FullName{
	"portcullis.policy.v1.Facts.logs",
	"portcullis.policy.v1.Exemption.request",
	"portcullis.policy.v1.PortHeader.rate_limit",
	"portcullis.policy.v1.Redirect.path",
	"portcullis.policy.v1.Timeouts.request",
	"portcullis.policy.v1.Timeouts.response",
	"portcullis.policy.v1.Timeouts.idle",
}

// unread is the message that no decision depends on: what cannot be read in it is left out.
const unread protoreflect.FullName = "portcullis.policy.v1.Logs"

// read refuses a message in which anything cannot be read: an enum at 0 or with an unknown value, a
// oneof or a message that is not set, and values that mean nothing.
func read(message protoreflect.Message, path string) error {
	descriptor := message.Descriptor()
	for i := range descriptor.Oneofs().Len() {
		oneof := descriptor.Oneofs().Get(i)
		if oneof.IsSynthetic() || slices.Contains(absent, oneof.FullName()) {
			continue
		}
		if message.WhichOneof(oneof) == nil {
			return refuse(path, "no member of %s is set, or one not known here", oneof.Name())
		}
	}
	for i := range descriptor.Fields().Len() {
		if err := readField(message, descriptor.Fields().Get(i), path); err != nil {
			return err
		}
	}
	return check(message, path)
}

func readField(message protoreflect.Message, field protoreflect.FieldDescriptor, path string) error {
	place := string(field.Name())
	if path != "" {
		place = path + "." + place
	}
	value := message.Get(field)
	switch {
	case field.IsMap():
		return nil
	case field.IsList():
		for i := range value.List().Len() {
			if err := readValue(field, value.List().Get(i), fmt.Sprintf("%s[%d]", place, i)); err != nil {
				return err
			}
		}
		return nil
	case field.HasPresence() && !message.Has(field):
		// Another member of its oneof is set, or it need not be there.
		single := field.ContainingOneof() == nil
		if single && field.Message() != nil && !slices.Contains(absent, field.FullName()) {
			return refuse(place, "must be set")
		}
		return nil
	default:
		return readValue(field, value, place)
	}
}

func readValue(field protoreflect.FieldDescriptor, value protoreflect.Value, place string) error {
	switch {
	case field.Message() != nil:
		if field.Message().FullName() == unread {
			return nil
		}
		return read(value.Message(), place)
	case field.Enum() != nil:
		if value.Enum() == 0 || field.Enum().Values().ByNumber(value.Enum()) == nil {
			return refuse(place, "value %d is not known here", value.Enum())
		}
	case field.Name() == "deny":
		if !slices.Contains(reasons, value.String()) {
			return refuse(place, "reason `%s` is not known here", value.String())
		}
	case field.Name() == "key" && field.Kind() == protoreflect.Fixed64Kind:
		if value.Uint() == 0 {
			return refuse(place, "must not be 0")
		}
	case field.Name() == "regex":
		// Go has the dialect of the API, RE2. It means the whole value.
		if _, err := regexp.Compile("^(?:" + value.String() + ")$"); err != nil {
			return refuse(place, "`%s` is not an expression: %v", value.String(), err)
		}
	}
	return nil
}

// check refuses values that mean nothing in their message.
func check(message protoreflect.Message, path string) error {
	get := func(name protoreflect.Name) protoreflect.Value {
		return message.Get(message.Descriptor().Fields().ByName(name))
	}
	switch message.Descriptor().Name() {
	case "Network":
		most, err := bits(get("address").Bytes(), path+".address")
		if err != nil {
			return err
		}
		if get("prefix_length").Uint() > most {
			return refuse(path+".prefix_length", "must be at most %d", most)
		}
	case "Facts":
		for _, name := range []protoreflect.Name{"pod_addresses", "pod_gateways"} {
			list := get(name).List()
			for i := range list.Len() {
				if _, err := bits(list.Get(i).Bytes(), fmt.Sprintf("%s.%s[%d]", path, name, i)); err != nil {
					return err
				}
			}
		}
	case "Origin":
		objects := message.Descriptor().Fields().ByName("objects")
		if message.Has(objects) && field(message.Get(objects).Message(), "chain").List().Len() == 0 {
			return refuse(path+".objects.chain", "must not be empty")
		}
	case "Redirect":
		if status := get("status").Uint(); status < 300 || status > 399 {
			return refuse(path+".status", "must be between 300 and 399, is %d", status)
		}
	}
	return nil
}

func bits(address []byte, path string) (uint64, error) {
	if len(address) != 4 && len(address) != 16 {
		return 0, refuse(path, "must have 4 or 16 bytes, has %d", len(address))
	}
	return uint64(len(address)) * 8, nil
}

// field returns a field by name; its zero if it was not sent.
func field(message protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return message.Get(message.Descriptor().Fields().ByName(name))
}

// has is true if a field was sent.
func has(message protoreflect.Message, name protoreflect.Name) bool {
	return message.Has(message.Descriptor().Fields().ByName(name))
}

// which returns the name of the member of `kind` that is set.
func which(message protoreflect.Message) string {
	set := message.WhichOneof(message.Descriptor().Oneofs().ByName("kind"))
	if set == nil {
		return ""
	}
	return string(set.Name())
}
