module portcullis.dev/tests/traffic

go 1.24.0
