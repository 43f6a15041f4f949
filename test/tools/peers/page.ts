/** The page that compares Headgate with other rate limiters. Three commands generate its tables. */
export const comparisonPage = "docs/explanation/comparison.md";
