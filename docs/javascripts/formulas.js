// Formulas come as <span class="arithmatex">\(...\)</span> and <div class="arithmatex">\[...\]</div>.
for (const element of document.querySelectorAll(".arithmatex")) {
  const formula = element.textContent.trim().slice(2, -2);
  katex.render(formula, element, { displayMode: element.tagName === "DIV", throwOnError: false });
}
