// xterm.js under a policy without inline styles. It sets style elements and style attributes by setAttribute, which
// `style-src 'self'` refuses; style sheets made by script and the style property of an element are allowed. So xterm.js gets
// a document that makes other style elements, and spans whose styles are set by property.

/** Stands for a style element: its text becomes a style sheet of the document. */
function styleElement(): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = document.createElement("template");
  Object.defineProperty(element, "textContent", {
    get: () => "",
    set: (css: string) => {
      sheet.replaceSync(css);
      if (!document.adoptedStyleSheets.includes(sheet)) document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

// Rows of a terminal consist of spans, which xterm.js makes with the global document.
HTMLSpanElement.prototype.setAttribute = function (name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

/** The document for xterm.js's option documentOverride. */
export const styledDocument: Document = new Proxy(document, {
  get(target, name) {
    if (name === "createElement") return (tag: string) => (tag === "style" ? styleElement() : document.createElement(tag));
    const value = Reflect.get(target, name, target);
    return typeof value === "function" ? value.bind(target) : value;
  },
});
