"""Read the files that notes show: pictures, PDFs, texts. Hostile ones are decoded in a process of their own."""
