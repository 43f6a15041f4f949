/** Shows the figure `<name>-light.svg` or, to readers of dark pages, `<name>-dark.svg`, which stand beside the page. */
export const picture = (name: string, title: string): string => `<picture>
  <source media="(prefers-color-scheme: dark)" srcset="${name}-dark.svg">
  <img alt="${title}; the figures are in the table below" src="${name}-light.svg">
</picture>`;
