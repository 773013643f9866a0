// Program drift compares objects that a chart renders with those that an API server has, as Argo CD
// does: by its gitops-engine.
//
// It reads a JSON list of comparisons, and writes the fields that differ, a list per comparison.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"

	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// comparison is an object as it is rendered, as the API server has it, and as it would be after a
// server-side apply; without the last, the three-way comparison of clients is made.
type comparison struct {
	Rendered map[string]any `json:"rendered"`
	Live     map[string]any `json:"live"`
	Applied  map[string]any `json:"applied"`
}

// dryRun answers with what the API server answered before.
type dryRun struct{ applied map[string]any }

func (d dryRun) Run(context.Context, *unstructured.Unstructured, string) (string, error) {
	text, err := json.Marshal(d.applied)
	return string(text), err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var all []comparison
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		return err
	}
	found := make([][]string, 0, len(all))
	for _, one := range all {
		fields, err := one.fields()
		if err != nil {
			return err
		}
		found = append(found, fields)
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// fields returns the paths that differ, sorted.
func (c comparison) fields() ([]string, error) {
	options := []diff.Option{diff.WithLogr(logr.Discard()), diff.WithManager("argocd-controller")}
	if c.Applied != nil {
		options = append(options, diff.WithServerSideDiff(true), diff.WithIgnoreMutationWebhook(false),
			diff.WithServerSideDryRunner(dryRun{c.Applied}))
	}
	rendered := &unstructured.Unstructured{Object: c.Rendered}
	live := &unstructured.Unstructured{Object: c.Live}
	result, err := diff.Diff(rendered, live, options...)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", rendered.GetKind(), rendered.GetName(), err)
	}
	fields := []string{}
	if !result.Modified {
		return fields, nil
	}
	var predicted, normalized any
	if err := json.Unmarshal(result.PredictedLive, &predicted); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(result.NormalizedLive, &normalized); err != nil {
		return nil, err
	}
	fields = differences(fields, "", predicted, normalized)
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s %s: modified, without a field that differs", rendered.GetKind(), rendered.GetName())
	}
	sort.Strings(fields)
	return fields, nil
}

// differences appends the deepest paths at which two values differ.
func differences(fields []string, path string, one, other any) []string {
	switch one := one.(type) {
	case map[string]any:
		other, ok := other.(map[string]any)
		if !ok {
			return append(fields, path)
		}
		for name, value := range one {
			fields = differences(fields, path+"/"+name, value, other[name])
		}
		for name, value := range other {
			if _, ok := one[name]; !ok {
				fields = differences(fields, path+"/"+name, nil, value)
			}
		}
		return fields
	case []any:
		other, ok := other.([]any)
		if !ok || len(one) != len(other) {
			return append(fields, path)
		}
		for at := range one {
			fields = differences(fields, fmt.Sprintf("%s/%d", path, at), one[at], other[at])
		}
		return fields
	default:
		if reflect.DeepEqual(one, other) {
			return fields
		}
		return append(fields, path)
	}
}
