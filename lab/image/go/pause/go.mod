module lab.invalid/pause

go 1.24
