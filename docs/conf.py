"""The site: Markdown pages, the notebooks of the examples, and the docstrings."""

import cachax

project = "cachax"
author = "the authors of cachax"
version = release = cachax.__version__
repository = "https://github.com/cachax/cachax"
description = (
    "Cached properties for JAX objects: computed once, and correct under every "
    "transformation."
)

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
nitpicky = True
exclude_patterns = ["_build", "jupyter_execute"]  # what a build leaves behind

# Notebooks are run by `make notebooks`, in full size, and shown as they are.
nb_execution_mode = "off"
nb_merge_streams = True
myst_heading_anchors = 4
myst_html_meta = {"description": description, "property=og:description": description}

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 110
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
# Types in signatures that are not on the page: those of Python, type variables, and
# classes of which only the use matters.
nitpick_ignore_regex = [
    ("py:class", r"(collections\.abc|pathlib)\..*"),
    ("py:class", r"[PT]|cachax\._.*\.[PQRT]"),
    ("py:class", r"cachax\._.*\.(CachedFunction|CachedMethod|Jitted|Lifted|Sample)"),
]

html_theme = "furo"
html_title = f"cachax {version}"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["cachax.css"]
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "source_repository": repository,
    "source_branch": "main",
    "source_directory": "docs/",
    "footer_icons": [
        {
            "name": "Repository",
            "url": repository,
            "html": "Repository",
            "class": "",
        }
    ],
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"
