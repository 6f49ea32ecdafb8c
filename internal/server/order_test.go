package server

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/wire"
)

// Every request that names a process, an open file or an upload keeps its order among the requests that name the
// same one. Every request that names a path waits for changes there. Exclusive methods have a key.
func TestEveryMethodHasItsOrder(t *testing.T) {
	kinds := map[string]schedule.Kind{"ProcessID": schedule.Process, "HandleID": schedule.FileHandle, "UploadID": schedule.Upload}
	var path wire.PathURI
	if err := wire.Decode([]byte(`"file:///dir/f"`), &path); err != nil {
		t.Fatal(err)
	}
	var cwd wire.Cwd
	if err := wire.Decode([]byte(`"file:///dir/f"`), &cwd); err != nil {
		t.Fatal(err)
	}
	for name, m := range methods {
		params := m.newParams()
		v := reflect.ValueOf(params).Elem()
		key, paths := schedule.Key{}, 0
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			switch {
			case kinds[field] != schedule.None:
				value := v.Field(i)
				if value.Kind() == reflect.Pointer {
					value.Set(reflect.New(value.Type().Elem()))
					value = value.Elem()
				}
				value.SetString("x")
				key = schedule.Key{Kind: kinds[field], ID: "x"}
			case v.Field(i).Type() == reflect.TypeOf(path):
				v.Field(i).Set(reflect.ValueOf(path))
				paths++
			case v.Field(i).Type() == reflect.TypeOf(cwd):
				v.Field(i).Set(reflect.ValueOf(cwd))
				paths++
			}
		}
		var job schedule.Job
		new(conn).order(&job, params)
		if key.Kind == schedule.Upload {
			paths = 0 // an upload appears at its path when it is committed, in one step
		}
		if slices.Contains([]string{wire.MethodFsWatchMissing, wire.MethodEnvironmentConfigRead, wire.MethodDiscoverRoots, wire.MethodDiscoverCapabilities}, name) {
			key, paths = job.Key, 0 // these methods read many paths, at any time
		}
		if job.Key != key || len(job.Paths) != paths {
			t.Errorf("%s: key %v, %d paths; want %v, %d", name, job.Key, len(job.Paths), key, paths)
		}
		for _, use := range job.Paths {
			if use.Path != "/dir/f" {
				t.Errorf("%s uses %s", name, use.Path)
			}
		}
		if m.pace == exclusive && job.Key.Kind == schedule.None {
			t.Errorf("%s is exclusive, but has no key", name)
		}
	}
}
