module github.com/caisson-dev/caisson

go 1.26
