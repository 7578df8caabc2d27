"""Rewrites of C++ and CUDA files, by file ending: the same steps, with includes for imports."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from patchkit.recipe.model import RewriteAppend, RewriteImport, RewriteInsert, RewriteReplace, RewriteStep
from patchkit.stack.rewrite import RewriteError, rewrite_files

FILE = "csrc/kernel.cu"
SOURCE = dedent("""\
    #include <torch/all.h>
    #ifdef X
    #include "x.h"
    #endif

    namespace ours {

    template <typename T>
    __global__ void scale(T* out, T const* in) {
      out[0] = in[0];  // one
    }

    struct Runner {
      void run(int n) {
        TORCH_CHECK(n > 0, "n");
        scale<float><<<n, 32>>>(out, in);
      }
    };

    void run_all(int n) { run(n); }

    }  // namespace ours
    """)


def rewritten(step: RewriteStep, path: str = FILE, text: str = SOURCE) -> str:
    result = rewrite_files(lambda name: text.encode() if name == path else None, [step], Path("/nonexistent"))
    after = result.contents[path]
    assert rewrite_files(lambda name: after if name == path else None, [step], Path("/nonexistent")).done
    return after.decode()


def test_a_check_is_replaced_within_its_method() -> None:
    step = RewriteReplace(
        file=FILE, inside="ours::Runner::run", match="TORCH_CHECK($C, $$$);", replace="TORCH_CHECK($C, ours(n));"
    )
    assert rewritten(step) == SOURCE.replace('"n");', "ours(n));")


def test_a_launch_is_guarded() -> None:
    step = RewriteReplace(
        file=FILE,
        inside="Runner.run",
        match="scale<float><<<$GRID, $BLOCK>>>($$$ARGS);",
        replace="if ($GRID > 0) {\n  scale<float><<<$GRID, $BLOCK>>>($$$ARGS);\n}",
    )
    assert rewritten(step) == SOURCE.replace(
        "    scale<float><<<n, 32>>>(out, in);",
        "    if (n > 0) {\n      scale<float><<<n, 32>>>(out, in);\n    }",
    )


def test_a_template_function_with_qualifiers_is_found_by_name() -> None:
    step = RewriteReplace(file=FILE, inside="scale", match="out[0] = $A;", replace="out[1] = $A;")
    assert rewritten(step) == SOURCE.replace("out[0] =", "out[1] =")


@pytest.mark.parametrize("path", ["a.cpp", "a.cc", "a.cuh", "a.h", "a.hpp"])
def test_every_ending_of_the_family_has_the_grammar(path: str) -> None:
    step = RewriteReplace(file=path, match="run($A)", replace="go($A)")
    assert rewritten(step, path) == SOURCE.replace("run(n);", "go(n);")


def test_lines_go_after_a_statement_and_to_the_end_of_a_body() -> None:
    insert = RewriteInsert(file=FILE, inside="Runner.run", after="TORCH_CHECK($$$);", insert="n = n + 1;")
    assert rewritten(insert) == SOURCE.replace('"n");\n', '"n");\n    n = n + 1;\n')
    append = RewriteAppend(file=FILE, inside="Runner.run", append="done();")
    assert rewritten(append) == SOURCE.replace("(out, in);\n", "(out, in);\n    done();\n")


def test_an_include_goes_after_the_last_unconditional_one() -> None:
    step = RewriteImport(file=FILE, import_='#include "ours.h"')
    assert rewritten(step) == SOURCE.replace("all.h>\n", 'all.h>\n#include "ours.h"\n')


def test_an_include_within_an_include_guard_has_a_place_too() -> None:
    step = RewriteImport(file="a.h", import_="#include <b>")
    assert rewritten(step, "a.h", "#ifndef A\n#define A\n#include <a>\n#endif\n") == (
        "#ifndef A\n#define A\n#include <a>\n#include <b>\n#endif\n"
    )


def test_an_import_statement_in_a_cpp_file_is_refused() -> None:
    with pytest.raises(RewriteError, match=r"an import is an #include"):
        rewritten(RewriteImport(file=FILE, import_="import os"))


def test_overloads_are_refused() -> None:
    with pytest.raises(RewriteError, match=r"2 definitions are named f \(lines 1, 2\)"):
        rewritten(
            RewriteReplace(file="a.cpp", inside="f", match="g();", replace="h();"),
            "a.cpp",
            "void f(int) { g(); }\nvoid f(long) { g(); }\n",
        )
