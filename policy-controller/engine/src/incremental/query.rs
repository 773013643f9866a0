//! The macro that ties a query to the function that answers it.

/// Implements [`crate::incremental::memo::Query`] by naming the function that answers.
macro_rules! query {
    ($name:ty, $answer:ty, $function:expr) => {
        impl crate::incremental::memo::Query for $name {
            type Output = $answer;

            fn key(&self) -> crate::incremental::memo::QueryKey {
                self.as_key()
            }

            fn table(
                tables: &mut crate::incremental::memo::MemoTables,
            ) -> &mut crate::incremental::memo::MemoTable<Self, Self::Output> {
                Self::tables(tables)
            }

            fn answer(&self, cx: &mut crate::incremental::memo::Context<'_>) -> Self::Output {
                $function(self, cx)
            }
        }
    };
}
pub(crate) use query;
