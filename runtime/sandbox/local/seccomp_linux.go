package local

// seccompFilter is empty where no filter exists for the architecture.
var seccompFilter []byte
