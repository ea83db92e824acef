#!/usr/bin/env python3
"""header_check.py TABLE [HEADER]: holds interpose/nccl/hooks.def against an installed nccl.h.

Fails when a public function of NCCL up to 2.32 that knows a communicator is missing in the table, or when its result or its parameters
differ in number or in kind (what decides how they travel). Functions of later headers are only listed: the shim
does not wrap them, the program reaches the original. Exit 77 (skipped) where there is no nccl.h.
"""
import pathlib
import re
import sys

KNOWN_VERSION = (2, 32)
# Of the library and not of a communicator, or of windows, which ours have not.
NOT_OURS = re.compile("ncclParam|ncclSetEncryption|ncclGetMultimemDevicePointer")
POINTERS = {"ncclComm_t", "ncclWindow_t", "cudaStream_t"}
INTS = {"int", "unsigned int", "unsigned", "ncclCommMemStat_t", "ncclCftTeamMode_t", "ncclResult_t", "ncclDataType_t", "ncclRedOp_t", "ncclScalarResidence_t"}
# Handed on as they are, whatever is in them.
BY_VALUE = {"ncclUniqueId", "ncclTeam_t", "size_t", "void"}


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"//[^\n]*", " ", text)


def kind(declaration):
    """How one parameter (or result) travels; its name, where there is one, is dropped."""
    if "*" in declaration:
        return "pointer"
    words = [word for word in declaration.split() if word not in ("const", "struct", "__host__")]
    for n in (len(words), len(words) - 1):
        name = " ".join(words[:n])
        if name in POINTERS:
            return "pointer"
        if name in INTS:
            return "int"
        if name in BY_VALUE:
            return name
    return f"unknown type '{declaration.strip()}'"


def kinds(parameters):
    listed = [p for p in (part.strip() for part in parameters.split(",")) if p and p != "void"]
    return [kind(p) for p in listed]


def functions_of_table(path):
    text = without_comments(path.read_text())
    found = re.findall(r"^DDL_NCCL_(?:CALL|QUERY)\(([^,]+),\s*(\w+),\s*\(([^()]*)\)", text, flags=re.M)
    return {name: (kind(result), kinds(parameters)) for result, name, parameters in found}


def functions_of_header(path):
    text = without_comments(path.read_text(errors="replace"))
    text = re.sub(r"^\s*#.*$", " ", text, flags=re.M)
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)\s*\n", " ", text, flags=re.S)
    found = re.findall(r"^[ \t]*(?:NCCL_EXTERN_C\s+__host__\s+)?((?:const\s+)?\w+\s*\**)\s+(nccl[A-Z]\w*)\s*\(([^(){}]*)\)\s*;",
                       text, flags=re.M)
    return {name: (kind(result), kinds(parameters)) for result, name, parameters in found
            if not result.startswith(("NCCL_", "return"))}


def device_header_functions(folder):
    functions = {}
    for path in sorted(folder.glob("nccl_device/*.h")):
        text = path.read_text(errors="replace")
        only_c = "\n".join(line for line in text.splitlines() if "NCCL_EXTERN_C" in line)
        if only_c:
            found = re.findall(r"NCCL_EXTERN_C\s+(?:__host__\s+)?(\w+)\s+(nccl\w+)\s*\(([^()]*)\)\s*;", only_c)
            functions.update({name: (kind(result), kinds(parameters)) for result, name, parameters in found})
    return functions


def version_of(path):
    text = path.read_text(errors="replace")
    return tuple(int(re.search(rf"#define\s+NCCL_{part}\s+(\d+)", text).group(1)) for part in ("MAJOR", "MINOR"))


def find_header():
    for folder in ("/usr/local/include", "/usr/include", "/usr/local/cuda/include"):
        header = pathlib.Path(folder) / "nccl.h"
        if header.exists():
            return header
    return None


def main():
    header = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else find_header()
    if header is None:
        print("skipped: no nccl.h is installed here")
        return 77
    header = header.resolve()
    table = functions_of_table(pathlib.Path(sys.argv[1]))
    public = {**functions_of_header(header), **device_header_functions(header.parent)}
    version = version_of(header)
    wrong = 0
    for name, (result, parameters) in sorted(public.items()):
        if name not in table:
            later = version > KNOWN_VERSION or NOT_OURS.match(name)
            print(f"{name}: {'passed through unknown' if later else 'MISSING in the table'}")
            wrong += not later
        elif table[name] != (result, parameters):
            print(f"{name}: the table says {table[name]}, the header {(result, parameters)}")
            wrong += 1
    for name in sorted(set(table) - set(public)):
        print(f"{name}: in the table only (an older header, or a device function it does not declare)")
    print(f"{header}: NCCL {'.'.join(map(str, version))}, {len(public)} public functions, {len(table)} in the table, {wrong} wrong")
    return 1 if wrong or not public else 0


if __name__ == "__main__":
    sys.exit(main())
