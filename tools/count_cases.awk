# tools/count_cases.awk - from Bazel's build events (JSON, one per line): "PASSED FAILED SKIPPED" in test cases.
#
# A GoogleTest suite counts by its XML. A suite that ended without writing one (crash, timeout) counts by its log: what
# it announced and did not finish has failed. Any other test is one case. A test that did not build is one failed case.

# The text between the first `before` and the next `after`; "" when absent.
function between(text, before, after,    i)
{
    i = index(text, before)
    if (!i)
        return ""
    text = substr(text, i + length(before))
    i = index(text, after)
    return i ? substr(text, 1, i - 1) : ""
}

function hex(c) { return index("0123456789abcdef", tolower(c)) - 1 }

# The path of a file:// URI, %XX decoded (bytes, in the C locale).
function path_of(uri,    out, i)
{
    sub(/^file:\/\//, "", uri)
    out = ""
    while ((i = index(uri, "%")) > 0) {
        out = out substr(uri, 1, i - 1) sprintf("%c", hex(substr(uri, i + 1, 1)) * 16 + hex(substr(uri, i + 2, 1)))
        uri = substr(uri, i + 3)
    }
    return out uri
}

function uri_named(line, name) { return path_of(between(line, "{\"name\":\"" name "\",\"uri\":\"", "\"")) }

# A numeric attribute of an XML element on this line.
function attr(line, name) { return between(line, " " name "=\"", "\"") + 0 }

# True when path is a GoogleTest report; adds its cases.
function count_xml(path, status,    line, suite, bad, skip, all, cdata)
{
    suite = 0; skip = 0; cdata = 0
    while ((getline line < path) > 0) {
        # Messages may hold anything, also lines that look like ours.
        if (cdata) {
            if (!index(line, "]]>"))
                continue
            cdata = 0
            sub(/^.*\]\]>/, "", line)
        }
        if (line ~ /^<testsuites [^>]*tests="/) {
            suite = 1
            all = attr(line, "tests")
            bad = attr(line, "failures") + attr(line, "errors")
            skip = attr(line, "disabled")
        } else if (suite && line ~ /^  <testsuite /) {
            skip += attr(line, "skipped")
        }
        if (index(line, "<![CDATA[") && line !~ /<!\[CDATA\[.*\]\]>/)
            cdata = 1
    }
    close(path)
    if (!suite)
        return 0
    passed += all - bad - skip
    skipped += skip
    # All cases fine and yet the program failed: a sanitizer at exit, a destructor, a failed set-up.
    failed += bad ? bad : (status == "PASSED" ? 0 : 1)
    return 1
}

# A failed test without a report of its own.
function count_log(path,    line, all, ok, skip, bad)
{
    all = 0; ok = 0; skip = 0
    while ((getline line < path) > 0) {
        if (line ~ /^\[==========\] Running [0-9]+ tests? from/)
            all = between(line, "Running ", " ") + 0
        else if (line ~ /^\[       OK \] .* ms\)$/)
            ok++
        else if (line ~ /^\[  SKIPPED \] .* ms\)$/)
            skip++
    }
    close(path)
    bad = all - ok - skip
    passed += ok
    skipped += skip
    failed += bad > 0 ? bad : 1
}

/^\{"id":\{"targetConfigured":/ {
    label = between($0, "\"label\":\"", "\"")
    if (index($0, "\"testSize\":"))
        is_test[label] = 1
}
/^\{"id":\{"targetCompleted":/ {
    label = between($0, "\"label\":\"", "\"")
    if (!index($0, "\"completed\":{\"success\":true"))
        unbuilt[label] = 1
}
/^\{"id":\{"testResult":/ {
    # A later attempt takes the place of an earlier one.
    key = between($0, "\"label\":\"", "\"") " " between($0, "\"run\":", ",") " " between($0, "\"shard\":", ",")
    status[key] = between($0, "\"status\":\"", "\"")
    xml[key] = uri_named($0, "test.xml")
    logfile[key] = uri_named($0, "test.log")
}

END {
    passed = 0; failed = 0; skipped = 0
    for (key in status) {
        if (xml[key] != "" && count_xml(xml[key], status[key]))
            continue
        if (status[key] == "PASSED")
            passed++
        else if (logfile[key] != "")
            count_log(logfile[key])
        else
            failed++
    }
    for (label in unbuilt)
        if (label in is_test)
            failed++
    print passed, failed, skipped
}
