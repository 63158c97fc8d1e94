# tools/check_style.awk - the rules of tools/check_style, one file after another.

function find(what)
{
    printf "%s:%d: %s\n", FILENAME, FNR, what
    found++
}

function starts(text, prefix) { return substr(text, 1, length(prefix)) == prefix }

# The folders that a file may include from; a folder stands for everything below it.
function allowed(file)
{
    if (starts(file, "zinf/base/")) return "zinf/base/"
    if (starts(file, "io/"))        return "io/ zinf/base/"
    if (starts(file, "kernels/"))   return "kernels/ zinf/base/"
    if (starts(file, "swapper/"))   return "swapper/ io/ kernels/ zinf/base/"
    if (starts(file, "zinf/"))      return "zinf/ swapper/ io/ kernels/"
    if (starts(file, "examples/"))  return "examples/ zinf/zinf.h"
    return ""                       # tests may look everywhere
}

function check_include(name,    i, n, folders)
{
    if (!index(name, "/")) {
        find("#include \"" name "\": write the path from the root of the repository, or <> for a system header")
        return
    }
    n = split(allowed(FILENAME), folders, " ")
    for (i = 1; i <= n; i++)
        if (starts(name, folders[i]))
            return
    if (n)
        find("#include \"" name "\": this layer may include from " allowed(FILENAME) " only")
}

# ZINF_DIR_FILE_H_; the leading zinf/ is not said twice.
function guard_of(file)
{
    sub(/^zinf\//, "", file)
    gsub(/[^A-Za-z0-9]/, "_", file)
    return "ZINF_" toupper(file) "_"
}

function end_of_file()
{
    if (!previous || !header)
        return
    if (guard != guard_of(previous)) {
        printf "%s:1: the guard is '%s', should be %s\n", previous, guard, guard_of(previous)
        found++
    }
}

BEGIN {
    # In pieces, so that this file does not find itself.
    word["TO" "DO"] = 1
    word["FIX" "ME"] = 1
    word["XX" "X"] = 1
    columns_max = 160
}

FNR == 1 {
    end_of_file()
    previous = FILENAME
    code = FILENAME ~ /\.(c|h|cc|cu|cuh)$/
    header = FILENAME ~ /\.(h|cuh)$/
    guard = ""
    if (code && !starts($0, "/* " FILENAME " - "))
        find("the first line is not `/* " FILENAME " - its one idea.`")
}

/\t/ { find("a tab") }
/[ \r]$/ { find("a blank at the end of the line") }

length($0) > columns_max { find(length($0) " columns; the aim is 120, the limit " columns_max) }

/[A-Z][A-Z][A-Z]/ {
    n = split($0, parts, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++)
        if (parts[i] in word)
            find(parts[i] ": finish it, or file an issue")
}

code && /^[ ]*#[ ]*include[ ]*"/ {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*$/, "", name)
    check_include(name)
}

header && guard == "" && /^#ifndef / { guard = $2 }

END {
    end_of_file()
    if (found) {
        printf "%d findings\n", found
        exit 1
    }
}
