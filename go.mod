module github.com/tetherexec/tether

go 1.26
