package mountinfo

import (
	"os"
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	text := `22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:26 /user\040slice /sys/fs/cg\134roup ro,nosuid - cgroup2 none rw,nsdelegate
31 22 0:27 / /m nt rw master:3 propagate_from:1 - tmpfs tmpfs rw
`
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{"/", "/", "rw,relatime", "ext4", []string{"shared:1"}, "rw"},
		{"/user slice", `/sys/fs/cg\roup`, "ro,nosuid", "cgroup2", []string{}, "rw,nsdelegate"},
		{"/", "/m\u00a0nt", "rw", "tmpfs", []string{"master:3", "propagate_from:1"}, "rw"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for i, follows := range []string{"shared:1", "", "master:3"} {
		if got[i].Follows() != follows {
			t.Errorf("%s follows %q, want %q", got[i].Point, got[i].Follows(), follows)
		}
	}
}

func TestParseOwn(t *testing.T) {
	text, err := os.ReadFile(Own)
	if err != nil {
		t.Fatal(err)
	}
	if mounts, err := Parse(string(text)); err != nil || len(mounts) == 0 {
		t.Errorf("%d mounts, %v", len(mounts), err)
	}
}

func TestParseUnreadable(t *testing.T) {
	for _, text := range []string{"\n", "22 1 0:20 / / rw\n", "22 1 0:20 / / - ext4 x rw\n", "22 1 0:20 / / rw - \n"} {
		if mounts, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, mounts)
		}
	}
}
