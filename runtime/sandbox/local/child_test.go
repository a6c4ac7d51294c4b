//go:build linux

package local_test

const childRole = "WEIR_TEST_CHILD"

func runChild() {}
