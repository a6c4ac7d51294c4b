package textfile

// ReadWithin is Read with another time to wait for a pipe.
var ReadWithin = read
