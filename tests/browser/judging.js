// What judging.py asks of a page, in the page.
window.judging ??= (() => {
  const focusNumbers = new Map();

  const everyElement = root => [...root.querySelectorAll("*")].flatMap(
    element => element.shadowRoot ? [element, ...everyElement(element.shadowRoot)] : [element]);

  const nameOf = element => {
    const label = element.getAttribute("aria-label") ?? element.textContent.trim().slice(0, 40);
    return `${element.tagName.toLowerCase()}#${element.id}.${element.getAttribute("class") ?? ""} ${label}`;
  };

  // A box around the element that keeps what is too wide for the window, and is not too wide itself.
  const isKept = (element, width) => {
    for (let up = element.parentElement ?? element.getRootNode().host; up && up !== document.body;
         up = up.parentElement ?? up.getRootNode().host)
      if (getComputedStyle(up).overflowX !== "visible" && up.getBoundingClientRect().right <= width + 1) return true;
    return false;
  };

  const outside = () => {
    const width = document.documentElement.clientWidth, page = document.scrollingElement.scrollWidth;
    const found = page > width ? [`the page is ${page} pixels wide in a window of ${width}`] : [];
    for (const element of everyElement(document)) {
      const box = element.getBoundingClientRect();
      if (box.width > 1 && box.height > 1 && box.right > width + 1 && !isKept(element, width))
        found.push(`${nameOf(element)} ends at ${Math.round(box.right)} of ${width} pixels`);
    }
    return found.slice(0, 8);
  };

  const focused = async () => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    const moving = Promise.allSettled(document.getAnimations().map(each => each.finished));
    await Promise.race([moving, new Promise(resolve => setTimeout(resolve, 1000))]);
    if (!element || element === document.body || element === document.documentElement) return null;
    if (!focusNumbers.has(element)) focusNumbers.set(element, focusNumbers.size);
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1
        && !/^rgba.*, 0\)$/.test(style.outlineColor);
    return {
      number: focusNumbers.get(element),
      name: nameOf(element),
      marked: outlined || style.boxShadow !== "none",
      onScreen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0
          && box.top < innerHeight && box.left < innerWidth,
    };
  };

  // What is shown and can be used with a mouse. Of radio buttons with one name, Tab comes to one.
  const controls = () => {
    const usable = everyElement(document).filter(element =>
      element.matches("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")
      && !element.disabled && element.tabIndex >= 0 && element.getClientRects().length > 0
      && element.checkVisibility({visibilityProperty: true}));
    const radios = usable.filter(element => element.type === "radio");
    return usable.length - radios.length + new Set(radios.map(element => element.name)).size;
  };

  return {outside, focused, controls};
})();
