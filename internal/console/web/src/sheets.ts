// xterm.js under a policy without inline styles. It sets style elements and style attributes by setAttribute, which
// `style-src 'self'` refuses; style sheets made by script and the style property of an element are allowed. So xterm.js gets
// a document that makes such elements.

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

/** Sets attributes; a style by the element's property. */
function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

function createElement(tag: string): HTMLElement {
  if (tag === "style") return styleElement();
  const element = document.createElement(tag);
  if (tag === "span") element.setAttribute = setAttribute;
  return element;
}

/** The document for xterm.js's option documentOverride. */
export const styledDocument: Document = new Proxy(document, {
  get(target, name) {
    if (name === "createElement") return createElement;
    const value = Reflect.get(target, name, target);
    return typeof value === "function" ? value.bind(target) : value;
  },
});
