"""Read and change markup: Markdown, HTML, front matter, headings, links. Pure; every store may use it."""
