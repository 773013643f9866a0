package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// errWrongBase is an update that does not build on what this client has.
var errWrongBase = errors.New("the update builds on another state")

// Port is the policy of one port: the state that updates change.
type Port struct {
	revision       protoreflect.Message
	header         protoreflect.Message
	authorizations map[uint64]protoreflect.Message
	own            []uint64
	routes         map[uint64]protoreflect.Message
	order          []uint64
}

// Apply returns the state after an update. The receiver, nil before the first one, is left as it is.
func (p *Port) Apply(update protoreflect.Message, features []string) (*Port, error) {
	needed := field(update, "required_features").List()
	for i := range needed.Len() {
		if name := needed.Get(i).String(); !slices.Contains(features, name) {
			return nil, refuse(fmt.Sprintf("required_features[%d]", i), "`%s` is not known here", name)
		}
	}
	if !has(update, "revision") {
		return nil, refuse("revision", "must be set")
	}
	next := &Port{
		revision:       field(update, "revision").Message(),
		authorizations: map[uint64]protoreflect.Message{},
		routes:         map[uint64]protoreflect.Message{},
	}
	if has(update, "base") {
		if p == nil || field(p.revision, "content").Uint() != field(update, "base").Uint() {
			return nil, errWrongBase
		}
		next.header, next.own, next.order = p.header, p.own, p.order
		maps.Copy(next.authorizations, p.authorizations)
		maps.Copy(next.routes, p.routes)
	}
	if has(update, "header") {
		next.header = field(update, "header").Message()
		if err := read(next.header, "header"); err != nil {
			return nil, err
		}
	}
	if next.header == nil {
		return nil, refuse("header", "must be set")
	}
	if err := change(next.authorizations, update, "removed_authorizations", "authorizations"); err != nil {
		return nil, err
	}
	if err := change(next.routes, update, "removed_routes", "routes"); err != nil {
		return nil, err
	}
	var err error
	if next.own, err = splice(next.own, update, "server_authorizations"); err != nil {
		return nil, err
	}
	if next.order, err = splice(next.order, update, "route_order"); err != nil {
		return nil, err
	}
	return next, next.check()
}

// check refuses keys that stand for nothing: a grant that is not there is no grant.
func (p *Port) check() error {
	granted := func(key uint64, place string) error {
		if _, known := p.authorizations[key]; !known {
			return refuse(place, "no authorization %d", key)
		}
		return nil
	}
	for _, key := range p.own {
		if err := granted(key, "server_authorizations"); err != nil {
			return err
		}
	}
	exemptions := field(p.header, "exemptions").List()
	for i := range exemptions.Len() {
		key := field(exemptions.Get(i).Message(), "authorization").Uint()
		if err := granted(key, fmt.Sprintf("header.exemptions[%d].authorization", i)); err != nil {
			return err
		}
	}
	for _, key := range p.order {
		route, known := p.routes[key]
		if !known {
			return refuse("route_order", "no route %d", key)
		}
		keys := field(route, "authorizations").List()
		for i := range keys.Len() {
			if err := granted(keys.Get(i).Uint(), "routes"); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe returns the gist, for people and tests.
func (p *Port) describe(into map[string]any) {
	owner := field(p.header, "owner").Message()
	into["owner"] = nameOr(owner, "server")
	into["protocol"] = which(field(p.header, "protocol").Message())
	into["deny"] = nil
	if has(p.header, "deny") {
		into["deny"] = field(p.header, "deny").String()
	}
	authorizations := []string{}
	for _, key := range p.own {
		authorizations = append(authorizations, nameOr(field(p.authorizations[key], "source").Message(), "object"))
	}
	into["authorizations"] = authorizations
	routes := []string{}
	for _, key := range p.order {
		origin := field(p.routes[key], "origin").Message()
		name := which(origin)
		if name == "objects" {
			chain := field(field(origin, "objects").Message(), "chain").List()
			name = field(chain.Get(chain.Len()-1).Message(), "name").String()
		}
		routes = append(routes, name)
	}
	into["routes"] = routes
}

// nameOr returns the name of the object, or of what is built in.
func nameOr(message protoreflect.Message, object protoreflect.Name) string {
	if has(message, object) {
		return field(field(message, object).Message(), "name").String()
	}
	return field(message, "default").String()
}

// change removes what is gone, then adds what is new or changed.
func change(known map[uint64]protoreflect.Message, update protoreflect.Message, removed, changed protoreflect.Name) error {
	gone := field(update, removed).List()
	for i := range gone.Len() {
		delete(known, gone.Get(i).Uint())
	}
	entries := field(update, changed).List()
	for i := range entries.Len() {
		entry := entries.Get(i).Message()
		if err := read(entry, fmt.Sprintf("%s[%d]", changed, i)); err != nil {
			return err
		}
		known[field(entry, "key").Uint()] = entry
	}
	return nil
}

// splice returns a list of keys after a KeyList: some kept at the start, new ones, some kept at the end.
func splice(old []uint64, update protoreflect.Message, name protoreflect.Name) ([]uint64, error) {
	if !has(update, name) {
		return old, nil
	}
	list := field(update, name).Message()
	first, last := field(list, "keep_first").Uint(), field(list, "keep_last").Uint()
	if first+last > uint64(len(old)) {
		return nil, refuse(string(name), "keeps %d of %d keys", first+last, len(old))
	}
	next := slices.Clone(old[:first])
	keys := field(list, "keys").List()
	for i := range keys.Len() {
		next = append(next, keys.Get(i).Uint())
	}
	return append(next, old[uint64(len(old))-last:]...), nil
}
